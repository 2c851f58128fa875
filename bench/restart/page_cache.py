"""Has the kernel forget what it holds of the files that a launch reads, and says how far it did.

Called by `launch`. Needs no rights: who has a file mapped keeps what it has of it in memory, and
then no launch is cold.
"""

import ctypes
import mmap
import os
import sysconfig
from pathlib import Path

PAGE = mmap.PAGESIZE
LARGE_BYTES = 1 << 20
"""What is smaller is forgotten, but not counted: there are 30,000 such files."""


def forget(folder: Path | None = None) -> float:
    """The share of the large files there (None: of installed packages) that is still in memory."""
    held = size = 0
    for path in (folder or Path(sysconfig.get_paths()["purelib"])).rglob("*"):
        if path.is_file() and not path.is_symlink():
            _drop(path)
            if (length := path.stat().st_size) >= LARGE_BYTES:
                held += _resident(path)
                size += length
    return held / size if size else 0.0


def _drop(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def _resident(path: Path) -> int:
    """Bytes of it in memory, mincore(2)."""
    with (
        path.open("rb") as file,
        mmap.mmap(
            file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
        ) as seen,
    ):
        pages = (len(seen) + PAGE - 1) // PAGE
        told = (ctypes.c_ubyte * pages)()
        start = ctypes.addressof(ctypes.c_char.from_buffer(seen))
        ctypes.CDLL(None).mincore(ctypes.c_void_p(start), ctypes.c_size_t(len(seen)), told)
        return sum(each & 1 for each in told) * PAGE
