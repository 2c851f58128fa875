"""Who connects as a node: a pod of ours, by a token that the API server vouches for.

Made by the wiring, asked by `sessions` at each connect. The token says which pod (by its UID), and
the pod which node: no name that a peer gives is believed. When a pod goes its connections end: a
token outlives its pod by some seconds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.driver.adapters.kubernetes import names, pods
from holdfast.driver.adapters.kubernetes.podbook import PodBook
from holdfast.driver.adapters.kubernetes.token_cache import TokenCache, digest_of
from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.kit.clock import Clock
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.kubeapi.errors import Unavailable, Unreachable

Object = dict[str, Any]

POD_UID = "authentication.kubernetes.io/pod-uid"
"""In `status.user.extra` of a TokenReview of a token that is bound to a pod."""

LISTED_WITHIN_S = 3.0
"""How long a driver that has just begun keeps a node waiting: nodes give up after 5 s."""

REVIEWED_S = 10.0
"""How long a review is believed, as the API server itself does: executor and daemon of a pod have
the same token, and connect together. Whether the pod is there is looked up at each connect.
"""

ANSWERED_WITHIN_S = 3.0
"""How long a review is waited for where an earlier one will do: nodes give up after 5 s."""

Reviewed = tuple[str, str]
"""UID of a token's pod, or "" and why the token is refused."""


class Away(TemporaryError):
    """There is no API server to say whose token it is."""


class PodIdentity:
    """Admits the processes of pods in `book`, once `listed` returns: all there are are in it."""

    def __init__(
        self,
        client: Client,
        book: PodBook,
        *,
        hears: Callable[[Object], bool],
        listed: Callable[[], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self._client = client
        self._book = book
        self._hears = hears
        self._listed = listed
        self._vouched = TokenCache(book, clock)
        self._admitted: dict[str, str] = {}  # UID of the pod by node
        self._reviews: dict[bytes, asyncio.Task[Reviewed | TemporaryError]] = {}  # by token's hash

    def when_gone(self, drop: Callable[[str, str], None]) -> Callable[[str, str], None]:
        """Call `drop(node, why)` once the pod is gone whose processes are connected as `node`.

        Gives what is to be called with node and UID where no other pod has its place any more.
        """

        def gone(pod: Object) -> None:
            node = pods.node_of(pod)
            if self._admitted.get(node) == pod["metadata"]["uid"]:
                del self._admitted[node]
                drop(node, f"pod {pod['metadata']['name']} is gone")

        def replaced(node: str, uid: str) -> None:
            if self._admitted.get(node, uid) != uid:
                del self._admitted[node]
                drop(node, "another pod has its place")

        self._book.when_gone(gone)
        return replaced

    async def refusal(self, node: str, token: str) -> str:
        """Why a process with this token may not connect as `node`; "" where it may.

        Raises `TemporaryError` while nobody can say. Asks for no review before the pods were
        listed: those of a thousand nodes would keep the list waiting.
        """
        try:
            async with asyncio.timeout(LISTED_WITHIN_S):
                await self._listed()
        except TimeoutError:
            raise TemporaryError("this driver has not seen the pods of the cluster yet") from None
        uid, why = await self._whose(token, node)
        why = why or self._unfit(self._book.get(uid), node)
        if not why:
            self._admitted[node] = uid
            self._vouched.keep(uid, token)
        return why

    def _unfit(self, pod: Object | None, node: str) -> str:
        if why := unfit(pod, node):
            return why
        if pod is None or self._hears(pod):
            return ""
        name = pod["metadata"]["name"]
        if pods.ending(pod):
            return f"pod {name} is being deleted, and nothing waits for its end"
        return f"pod {name} is not the one that has node {node}"

    async def _whose(self, token: str, node: str) -> Reviewed:
        """As a review says; while the API server is away, as one said that was good."""
        known = self._vouched.whose(token, node)
        if not known:
            return await self._reviewed(token)
        try:
            async with asyncio.timeout(ANSWERED_WITHIN_S):
                return await self._reviewed(token)
        except (Away, TimeoutError):
            return known, ""

    async def _reviewed(self, token: str) -> Reviewed:
        """By a review that goes on, or was good a moment ago; any other is asked anew."""
        digest = digest_of(token)
        if digest not in self._reviews:
            self._reviews[digest] = asyncio.create_task(self._review(digest, token))
        found = await asyncio.shield(self._reviews[digest])
        if isinstance(found, TemporaryError):
            raise found
        return found

    async def _review(self, digest: bytes, token: str) -> Reviewed | TemporaryError:
        """An error is given, not raised: whoever waited for it may be gone."""
        try:
            found = reviewed(await self._client.ask(paths.token_reviews(), review(token)))
        except (TemporaryError, PermanentError) as error:
            del self._reviews[digest]
            away = isinstance(error, Unreachable | Unavailable)
            why = f"the API server does not say whose token it is: {error}"
            return Away(why) if away else TemporaryError(why)
        if found[1]:
            del self._reviews[digest]
        else:
            asyncio.get_running_loop().call_later(REVIEWED_S, self._reviews.pop, digest)
        return found


def review(token: str) -> Object:
    """What is posted to have a token reviewed, for our audience alone."""
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [names.AUDIENCE]},
    }


def reviewed(answer: Object) -> Reviewed:
    """UID of the pod that the token is bound to, or "" and why it is refused."""
    status = answer.get("status", {})
    if not status.get("authenticated"):
        return "", f"the token is not good: {status.get('error') or 'it is not known'}"
    if names.AUDIENCE not in status.get("audiences", ()):
        return "", f"the token is for another audience than {names.AUDIENCE!r}"
    uids = status.get("user", {}).get("extra", {}).get(POD_UID) or [""]
    return uids[0], "" if uids[0] else "the token is not bound to a pod"


def unfit(pod: Object | None, node: str) -> str:
    """Why this pod may not connect as `node`; "" where it may."""
    if pod is None:
        return "its pod is none of ours, or gone"
    if pods.node_of(pod) != node or pod["spec"].get("nodeName") != node:
        return f"pod {pod['metadata']['name']} is not on node {node}"
    return ""
