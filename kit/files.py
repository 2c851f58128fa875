"""Files that are whole or absent (write beside, flush, rename), and folders for our user alone.

Called by whatever keeps state. Must not know what is kept.
"""

import errno
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

LONGEST_SOCKET_PATH = 107
"""Linux keeps 108 octets for the path of a Unix socket, a zero at its end (unix(7))."""


_numbers = count()
_BESIDE = re.compile(r"\..+\.(?P<pid>\d+)\.\d+")
_NO_TMPFILE = {errno.EOPNOTSUPP, errno.EISDIR}
"""As open(2) says it of a file system, and of a kernel, that has none."""


def beside(path: Path) -> Path:
    """Where to write what is to become `path`: a hidden name that no other process, and no other
    thread of this one, writes to.
    """
    return path.with_name(f".{path.name}.{os.getpid()}.{next(_numbers)}")


@contextmanager
def new_file(path: Path, *, mode: int) -> Iterator[int]:
    """A file descriptor of what is at `path` after the block, unless a file has come there first.

    Before that it has no name, so that a kill leaves nothing of it; where the file system has no
    such files (NFS) it has one `beside`, until `sweep_beside`. Raises `OSError`.
    """
    try:
        fd = os.open(path.parent, os.O_TMPFILE | os.O_RDWR, mode)
    except OSError as error:
        if error.errno not in _NO_TMPFILE:
            raise
        with _named(path, mode) as fd:
            yield fd
        return
    try:
        yield fd
        with suppress(FileExistsError):
            # With a folder given Python follows the link, which is how an open file gets a name.
            os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd, follow_symlinks=True)
    finally:
        os.close(fd)


@contextmanager
def _named(path: Path, mode: int) -> Iterator[int]:
    new = beside(path)
    fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    try:
        yield fd
        with suppress(FileExistsError):
            path.hardlink_to(new)
    finally:
        os.close(fd)
        new.unlink(missing_ok=True)


def sweep_beside(folder: Path) -> None:
    """Remove what processes that were killed have left `beside` files of this folder."""
    for path in folder.glob(".*"):
        found = _BESIDE.fullmatch(path.name)
        if found and not Path(f"/proc/{found['pid']}").exists():
            path.unlink(missing_ok=True)


def private_folder(path: Path, *, exist_ok: bool = True) -> None:
    """Make `path`, for our user alone: state has the secrets in the environment of jobs.

    Folders above it are made as any other, and one that is there keeps its mode. Raises `OSError`.
    """
    path.mkdir(parents=True, exist_ok=exist_ok, mode=0o700)


def check_socket_path(path: Path, option: str) -> None:
    """Raise `ValueError`, in the words of `option`, where the path is too long for a socket."""
    octets = len(os.fsencode(path))
    if octets > LONGEST_SOCKET_PATH:
        raise ValueError(
            f"{option}: {path} has {octets} octets, a Unix socket's path may have "
            f"{LONGEST_SOCKET_PATH}. Use a shorter folder."
        )


def listens_at(path: Path) -> bool:
    """Whether somebody takes connections there: a socket's file is older than its listener."""
    with socket.socket(socket.AF_UNIX) as trial:
        try:
            trial.connect(os.fspath(path))
        except OSError:
            return False
        return True


def write_atomic(path: Path, data: bytes, *, mode: int = 0o644, durable: bool = False) -> None:
    """Put `data` at `path` so that a reader, or a crash, sees the old content or the new.

    Raises `OSError` (`ENOSPC` among them), which names `path`, with nothing changed there.
    """
    new = beside(path)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        new.rename(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        error.filename = str(path)  # a write that finds no room names nothing
        raise
