"""Tokens for which the API server has vouched, for the time when it is away.

Made and used by `identity`. Of each pod in the book it has the newest, until the token itself says
that it is over. Of a token nothing else is believed, and none of which no review said whose it is.
"""

import base64
import hashlib
from typing import Any

import msgspec

from holdfast.driver.adapters.kubernetes.podbook import PodBook
from holdfast.kit.clock import Clock

Object = dict[str, Any]


class TokenCache:
    """One token a pod, by its hash."""

    def __init__(self, book: PodBook, clock: Clock) -> None:
        self._book = book
        self._clock = clock
        self._good: dict[str, tuple[bytes, float]] = {}  # hash, and its end, by UID of the pod
        book.when_gone(self._forget)

    def keep(self, uid: str, token: str) -> None:
        """A review has said that the token is of this pod, which is in the book."""
        self._good[uid] = digest_of(token), good_until(token)

    def whose(self, token: str, node: str) -> str:
        """UID of the pod for `node` of which the token is and still good; "" if nobody knows."""
        digest, now = digest_of(token), self._clock.wall().timestamp()
        for pod in self._book.on(node):
            uid = str(pod["metadata"]["uid"])
            known, until = self._good.get(uid, (b"", 0.0))
            if known == digest and now < until:
                return uid
        return ""

    def _forget(self, pod: Object) -> None:
        self._good.pop(pod["metadata"]["uid"], None)


class _Claims(msgspec.Struct):
    exp: float


def digest_of(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def good_until(token: str) -> float:
    """The end of a token's life in seconds since 1970, by its claim `exp`; 0 where that cannot be
    read.
    """
    try:
        claims = token.split(".")[1]
        said = base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))
        return msgspec.json.decode(said, type=_Claims).exp
    except (IndexError, ValueError, msgspec.DecodeError):
        return 0.0
