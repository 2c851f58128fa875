"""Who looks at the page: a code that is good once becomes a session, whose cookie only reads.

Made by `adapters.rest.app`. A session has the rights of the token with which its code was made.
Must not log or show codes, cookies or tokens. One made with the driver's own token is signed by a
key of that, and so outlives a restart; the token of anybody else is kept in memory as long as the
session lasts, and goes with the driver.
"""

import hashlib
import hmac
import secrets
from typing import NamedTuple

from holdfast.kit.clock import Clock

CODE_S = 60.0
"""Enough to click on a line in a terminal, and short for what may end up in a CI's log."""
SESSION_S = 12 * 3_600
"""A shift."""
MOST_CODES, MOST_SESSIONS = 64, 1_024
"""The oldest give way: nobody fills the driver's memory with them."""
CODE_BYTES = 16
"""Nobody guesses it within its minute, and it fits on a line."""
SECRET_BYTES = 32


class _Held(NamedTuple):
    """A person's token, and until when it is good here."""

    token: str
    until_s: float


class Sessions:
    """Codes and sessions of one driver. `own`: its own token of people; "" where it has none."""

    def __init__(self, own: str, clock: Clock) -> None:
        self._own = own
        self._key = hmac.digest(own.encode(), b"sessions of the page", "sha256")
        self._clock = clock
        self._codes: dict[bytes, _Held] = {}
        self._sessions: dict[bytes, _Held] = {}

    def code(self, token: str) -> str:
        """A new code for whoever has this token, which the caller has checked."""
        code = secrets.token_urlsafe(CODE_BYTES)
        held = _Held(token, self._clock.monotonic_s() + CODE_S)
        _keep(self._codes, code, held, most=MOST_CODES)
        return code

    def redeem(self, code: str) -> str | None:
        """The value of a new session's cookie; None where the code was used or is too old."""
        held = self._codes.pop(_digest(code), None)
        if held is None or held.until_s < self._clock.monotonic_s():
            return None
        until_s = self._clock.wall().timestamp() + SESSION_S
        if self._own and _same(held.token, self._own):
            return self._signed(f"{secrets.token_urlsafe(SECRET_BYTES)}.{until_s:.0f}")
        cookie = secrets.token_urlsafe(SECRET_BYTES)
        _keep(self._sessions, cookie, _Held(held.token, until_s), most=MOST_SESSIONS)
        return cookie

    def token_of(self, cookie: str) -> str | None:
        """The token that the session has the rights of; None where there is no such session."""
        now_s = self._clock.wall().timestamp()
        said, _, _ = cookie.rpartition(".")
        if self._own and said and _same(self._signed(said), cookie):
            return self._own if float(said.rpartition(".")[2]) > now_s else None
        held = self._sessions.get(_digest(cookie))
        return held.token if held is not None and held.until_s > now_s else None

    def _signed(self, said: str) -> str:
        return f"{said}.{hmac.digest(self._key, _bytes(said), 'sha256').hex()}"


def form_token(cookie: str) -> str:
    """What a form of this session has in it; who knows it alone does not know the cookie."""
    return hmac.digest(cookie.encode(), b"forms of the page", "sha256").hex()


def _keep(kept: dict[bytes, _Held], secret: str, held: _Held, *, most: int) -> None:
    """By its digest: a look-up tells nobody by its time how much of a secret was right."""
    while len(kept) >= most:
        del kept[next(iter(kept))]
    kept[_digest(secret)] = held


def _digest(secret: str) -> bytes:
    return hashlib.sha256(_bytes(secret)).digest()


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(_bytes(one), _bytes(other))


def _bytes(text: str) -> bytes:
    """Also of what is no text at all, which a browser may send."""
    return text.encode(errors="surrogatepass")
