"""What an API server can answer but yes: one class an answer, each a temporary or a permanent one.

Raised by `client` and all that is built on it; whoever calls catches what it has an answer to and
lets the rest through as `TemporaryError` or `PermanentError`. Must not be raised for anything but
an answer, or the lack of one.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.kit.errors import PermanentError, TemporaryError
from holdfast.kubeapi.paths import GROUP

NO_DEFINITION = "the cluster has no TrainingJobs, for their definition (CRD) is not installed."
INSTALL = "Install it: kubectl apply -f deploy/kubernetes/base/crd.yaml"

LONGEST_RETRY_AFTER_S = 60.0
"""API servers ask for one second; whatever asks for more than this is not one."""


class ApiError(Exception):
    """One answer. `status` is 0 and `reason` empty where there was none; `causes` are the words of
    the answer's `details.causes[].reason`; `said` is what the server said, without what was asked.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        retry_after_s: float | None = None,
        causes: Sequence[str] = (),
        said: str = "",
    ) -> None:
        super().__init__(message)
        self.said = said or message
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s
        self.causes = tuple(causes)


class TemporaryAnswer(ApiError, TemporaryError):
    """The same call may work later."""


class PermanentAnswer(ApiError, PermanentError):
    """The same call will fail again."""


class Unreachable(TemporaryAnswer):
    """No answer: refused, cut off or out of time. Whether a write happened is not known."""


class Silent(Unreachable):
    """A watch on which nothing came, not even a bookmark, for longer than a server stays quiet."""


class Malformed(TemporaryAnswer):
    """An answer that is not an API server's: HTML of a proxy, half a line."""


class Unavailable(TemporaryAnswer):
    """The server says that it cannot now (5xx, 408)."""

    @property
    def of_webhook(self) -> bool:
        """Whether the server asked somebody else's admission webhook in vain."""
        return "failed calling webhook" in str(self)


class TooMany(TemporaryAnswer):
    """429: too many requests, or an eviction that a PodDisruptionBudget does not allow now."""


class Conflict(TemporaryAnswer):
    """409: the object has changed since it was read; read it again."""


class Gone(TemporaryAnswer):
    """410, or a version from the future: a watch or a list cannot go on from there; list again."""


class Unauthorized(TemporaryAnswer):
    """401, also with the newest token that there is; a kubelet may yet write another."""


class OverQuota(TemporaryAnswer):
    """403 of a ResourceQuota: there is room once something else has gone."""


class Forbidden(PermanentAnswer):
    """403: not allowed by RBAC, admission, or a namespace that is going."""

    @property
    def of_rights(self) -> bool:
        """Whether a role is missing. An API server that has just started knows none yet."""
        return re.search(r'forbidden: User ".*" cannot ', str(self)) is not None


class NotFound(PermanentAnswer):
    """404."""


class NotServed(NotFound):
    """404 for a whole API group: this server knows no such kind."""


class AlreadyExists(PermanentAnswer):
    """409: the name is taken, by us or by others: compare the owner's UID."""


class Invalid(PermanentAnswer):
    """422: the object breaks its schema or its rules; the message names the field."""


class Refused(PermanentAnswer):
    """Any other 4xx."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooMany,
}


class _Cause(msgspec.Struct):
    reason: str | None = None


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None
    retry_after: float | None = msgspec.field(default=None, name="retryAfterSeconds")


class _Status(msgspec.Struct, tag_field="kind", tag="Status"):
    """A `metav1.Status`, as far as it is used here."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


def error_of_answer(doing: str, status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error for an HTTP answer of `status`; `doing` says what was asked."""
    retry_after_s = _seconds(headers.get("Retry-After", ""))
    try:
        said = msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:  # a proxy before the server, or a server that is just starting
        if status == 404 and f"/apis/{GROUP}/" in doing:
            return NotServed(f"{NO_DEFINITION} {INSTALL}", status=status)
        kind = headers.get("Content-Type", "no type")
        message = f"{doing}: answered {status} with {len(body)} bytes of {kind}, not a Status"
        return _class(status, "", (), "")(message, status=status, retry_after_s=retry_after_s)
    return _error(doing, said, status, retry_after_s)


def error_of_event(doing: str, status: Mapping[str, Any]) -> ApiError:
    """The error for the object of a watch's ERROR event."""
    try:
        said = msgspec.convert(dict(status), _Status)
    except msgspec.ValidationError:
        return Malformed(f"{doing}: an ERROR event came without a Status")
    return _error(doing, said, said.code, None)


def _error(doing: str, said: _Status, status: int, retry_after_s: float | None) -> ApiError:
    details = said.details or _Details()
    causes = tuple(cause.reason for cause in details.causes or () if cause.reason)
    if retry_after_s is None and details.retry_after:
        retry_after_s = min(details.retry_after, LONGEST_RETRY_AFTER_S)
    return _class(status, said.reason, causes, said.message)(
        f"{doing}: {said.message or said.reason} ({status})",
        status=status,
        reason=said.reason,
        retry_after_s=retry_after_s,
        causes=causes,
        said=re.sub(r'^\w+(\.[\w.]+)? "[^"]*" is (forbidden|invalid): ', "", said.message),
    )


def _class(status: int, reason: str, causes: tuple[str, ...], message: str) -> type[ApiError]:
    if reason == "AlreadyExists":
        return AlreadyExists
    if reason in ("Expired", "Gone") or "ResourceVersionTooLarge" in causes:
        return Gone
    if status == 403 and "exceeded quota" in message:
        return OverQuota
    return _BY_STATUS.get(status, Refused if 400 <= status < 500 else Unavailable)


def _seconds(retry_after: str) -> float | None:
    """API servers send whole seconds, never a date."""
    if not retry_after.strip().isdecimal():
        return None
    return min(float(retry_after), LONGEST_RETRY_AFTER_S)
