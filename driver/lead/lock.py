"""One driver for one state: an advisory lock that ends with its process, whatever ends it.

Taken by `driver.main` before anything else of the state is opened.
"""

import fcntl
import os
from pathlib import Path


class Locked(Exception):
    """Another driver uses this state; the message says which process."""


def take_lock(path: Path) -> int:
    """Hold `path` for the life of this process; the descriptor, which must stay open.

    Raises `Locked`.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(fd, 32, 0).decode().strip() or "unknown"
        os.close(fd)
        raise Locked(
            f"state {path.parent}: already used by the driver with pid {holder}. "
            "Stop that one, or give this one another --state."
        ) from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd
