"""The Node object of this node: its conditions are patched with the pod's service account.

Used by the loop of signals. Token and CA are read anew for each request, for the kubelet renews
them. Must not ask for anything but `patch nodes/status`, nor show the token. It is one request of
its own and not `kubeapi`, whose client keeps connections and streams, and is the driver's.
"""

from collections.abc import Sequence

import httpx
import msgspec

from holdfast.daemon.signals.conditions import Condition, Seen
from holdfast.daemon.signals.settings import Settings
from holdfast.kit.tls import ca_in, reason, trusting
from holdfast.protocol.version import FIELD_MANAGER

STRATEGIC = "application/strategic-merge-patch+json"
"""Lists of conditions are merged by their type, as a kubelet does it."""
USER_AGENT = "holdfast-node-signals"
MANAGED = {"fieldManager": FIELD_MANAGER}
TIMEOUT_S = 10.0
LONGEST = 500
"""Characters of an answer that are shown."""


class NotTold(Exception):
    """The API server did not take it; the message says why, and what to do."""


class _Status(msgspec.Struct):
    conditions: list[Seen] = []


class _Node(msgspec.Struct):
    status: _Status


class NodeObject:
    """One node's."""

    def __init__(self, settings: Settings) -> None:
        self._url = f"{settings.api_server}/api/v1/nodes/{settings.node}/status"
        self._account = settings.account

    async def patch(self, conditions: Sequence[Condition] = ()) -> dict[str, Seen]:
        """Write these and return all that the Node has then, by type. Raises `NotTold`.

        With none nothing is changed: this is how it is read without the right to read.
        """
        patch = {"status": {"conditions": list(conditions)}} if conditions else {}
        answer = await self._send(msgspec.json.encode(patch))
        if not answer.is_success:
            raise NotTold(_refusal(answer))
        try:
            node = msgspec.json.decode(answer.content, type=_Node)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise NotTold(f"what answers at {self._url} is no API server: {error}.") from error
        return {each.type: each for each in node.status.conditions}

    async def _send(self, patch: bytes) -> httpx.Response:
        try:
            context = trusting(ca_in(self._account / "ca.crt"))
            token = (self._account / "token").read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise NotTold(f"the service account cannot be used: {error}.") from error
        if not token.isprintable() or " " in token:
            raise NotTold("the service account's token has characters that no token has.")
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": STRATEGIC,
            "User-Agent": USER_AGENT,
        }
        try:
            async with httpx.AsyncClient(
                verify=context, trust_env=False, timeout=TIMEOUT_S
            ) as client:
                return await client.patch(self._url, params=MANAGED, content=patch, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise NotTold(f"no answer from the API server: {reason(error)}.") from error


def _refusal(answer: httpx.Response) -> str:
    try:
        said = msgspec.json.decode(answer.content, type=_Refusal).message
    except (msgspec.MsgspecError, UnicodeDecodeError):
        said = answer.reason_phrase
    fix = (
        " Apply deploy/kubernetes/overlays/node-signals anew." if answer.status_code == 403 else ""
    )
    return f"the API server refuses ({answer.status_code}): {said[:LONGEST]}.{fix}"


class _Refusal(msgspec.Struct):
    message: str
