"""Two paths that change places at once: whoever looks meanwhile finds one or the other there.

Used by tests that put something in the way of a process which makes anew what it misses.
"""

import ctypes
import os
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_HERE = -100  # AT_FDCWD, openat(2)
_EXCHANGE = 2  # RENAME_EXCHANGE, renameat2(2)


def exchange(one: Path, other: Path) -> None:
    """Each is where the other was, be it a file or a folder. Both have to be there."""
    if _LIBC.renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one), None, str(other))
