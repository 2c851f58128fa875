"""A token bucket: how much we ask of an API server, and that we stop when it says so.

Used by `client` for its calls and by `queue`. On the event loop's time. Must not refuse anybody:
it makes them wait, first come first served.
"""

import asyncio


class TokenBucket:
    """`per_s` tokens a second, at most `burst` at once; full at first."""

    def __init__(self, *, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = float(burst)
        self._left = float(burst)
        self._at_s: float | None = None  # when `_left` was true; it may be ahead after `hold`

    async def take(self) -> None:
        """Take one token, once there is one."""
        now_s = asyncio.get_running_loop().time()
        self._fill(now_s)
        self._left -= 1.0  # below nought is what those who wait have taken in advance
        wait_s = self._ready_s() - now_s
        if wait_s > 0.0:
            try:
                await asyncio.sleep(wait_s)
            except asyncio.CancelledError:
                self._left += 1.0
                raise

    def hold(self, wait_s: float) -> None:
        """No token before `wait_s` seconds from now: the server has said 429."""
        now_s = asyncio.get_running_loop().time()
        self._fill(now_s)
        self._left = min(self._left, 0.0)
        self._at_s = max(self._at_s or 0.0, now_s + wait_s)

    def _fill(self, now_s: float) -> None:
        at_s = now_s if self._at_s is None else self._at_s
        if now_s >= at_s:
            self._left = min(self._burst, self._left + (now_s - at_s) * self._per_s)
            at_s = now_s
        self._at_s = at_s

    def _ready_s(self) -> float:
        """When the token that was taken last is there."""
        return (self._at_s or 0.0) + max(0.0, -self._left) / self._per_s
