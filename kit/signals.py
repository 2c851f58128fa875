"""Signals that a command takes for a while, as its starter left them.

Used by commands that stay in the foreground. One that is ignored when we start stays ignored: that
is what `nohup` asks for with SIGHUP, and a script's background job with SIGINT.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a plain `kill`, and a terminal that is closed."""


@contextmanager
def taken(
    handler: Callable[[int, FrameType | None], object], kinds: Sequence[signal.Signals] = ENDING
) -> Iterator[None]:
    """Have them call `handler`; afterwards they do what they did before."""
    heard = [kind for kind in kinds if signal.getsignal(kind) is not signal.SIG_IGN]
    before = {kind: signal.signal(kind, handler) for kind in heard}
    try:
        yield
    finally:
        for kind, was in before.items():
            signal.signal(kind, was)
