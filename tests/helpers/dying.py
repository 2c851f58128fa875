"""What a child of the tests calls first, so that it ends with them, however they end."""

import ctypes
import signal

_LIBC = ctypes.CDLL(None)
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG, prctl(2)


def die_with_parent() -> None:
    """SIGKILL for this process when the thread that made it has ended."""
    _LIBC.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
