"""A store in a folder: a local disk, or a file system that every node has mounted.

Made by `open_store`. A file is written beside its place, flushed to the disk and renamed; the
folder is flushed too, so that what was acknowledged outlives a power cut.
"""

import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from holdfast.checkpoint.stores import (
    CHUNK_BYTES,
    FLUSH_BYTES,
    Buffer,
    NotStored,
    PermanentStoreError,
    StoredFile,
    TemporaryStoreError,
)
from holdfast.kit.files import beside

_ADVICE = {
    errno.ENOSPC: "Free space there, or give the job another storeUrl.",
    errno.EDQUOT: "Raise the quota, or give the job another storeUrl.",
    errno.EFBIG: "Raise the limit on file sizes there.",
    errno.EACCES: "Let the executor's user {what} there.",
    errno.EPERM: "Let the executor's user {what} there.",
    errno.EROFS: "Mount it writable, or give the job another storeUrl.",
    errno.ENOENT: "Make the folder above it, or give the job another storeUrl.",
    errno.ENOTDIR: "Give the job a storeUrl that is a folder.",
    errno.EEXIST: "Give the job a storeUrl that is a folder.",
}
_PERMANENT = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}


class FileStore:
    """Files under `root`, which is made at the first write. `waits`: for whoever writes to a pipe,
    as for a file system that does not answer.
    """

    def __init__(self, root: str, *, waits: bool = True) -> None:
        self._root = Path(root)
        self._waits = waits

    def put(self, path: str, chunks: Iterable[Buffer]) -> None:
        target = self._root / path
        new = Path(f"{beside(target)}.tmp")
        with _told("write", target):
            _make_folder(target.parent)
            try:
                with new.open("wb") as file:
                    _write(file, chunks)
                new.rename(target)
            finally:
                new.unlink(missing_ok=True)
            _flush_folder(target.parent)

    def get(self, path: str, *, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        target = self._root / path
        if not self._waits and _is_odd(target):
            raise PermanentStoreError(f"store: cannot read {target}: it is no file. Remove it.")
        with _told("read", target), target.open("rb") as file:
            if begin:  # who reads from its beginning may read what has no places
                file.seek(begin)
            left = sys.maxsize if end is None else end - begin
            while chunk := file.read(max(0, min(CHUNK_BYTES, left))):
                left -= len(chunk)
                yield chunk

    def entries(self, folder: str) -> list[StoredFile]:
        target = self._root / folder
        found = []
        with _told("list", target):
            if not target.exists():
                return []
            for path in sorted(target.iterdir()):
                if (info := _info(path)) is not None:
                    inner = stat.S_ISDIR(info.st_mode)
                    size = 0 if inner else info.st_size
                    found.append(StoredFile(path.name, size, inner, info.st_mtime))
        return [entry for entry in found if not entry.name.endswith(".tmp")]

    def delete(self, path: str) -> None:
        target = self._root / path
        with _told("delete", target):
            if target.is_dir():
                shutil.rmtree(target)
            else:
                target.unlink(missing_ok=True)


def _is_odd(path: Path) -> bool:
    """A pipe, or a device."""
    return path.exists() and not (path.is_file() or path.is_dir())


def _info(path: Path) -> os.stat_result | None:
    """None of what another node's agent deletes just now, and of a link that leads nowhere."""
    try:
        return path.stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return None
        raise


def _write(file: BinaryIO, chunks: Iterable[Buffer]) -> None:
    """All of it, and flushed."""
    waiting = 0
    for chunk in chunks:
        waiting += file.write(chunk)
        if waiting >= FLUSH_BYTES:
            _flush(file)
            waiting = 0
    _flush(file)


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _make_folder(folder: Path) -> None:
    """With those above it that are missing, each of which outlives a power cut, too."""
    if not folder.exists():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _flush_folder(folder.parent)


def _flush_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def _told(what: str, path: Path) -> Iterator[None]:
    """Turn an `OSError` into the store's own, with what to do about it."""
    try:
        yield
    except OSError as error:
        if what == "read" and isinstance(error, FileNotFoundError):
            raise NotStored(f"store: {path} is not there") from error
        number = error.errno or 0
        advice = _ADVICE.get(number, "It is tried again.").format(what=what)
        kind = PermanentStoreError if number in _PERMANENT else TemporaryStoreError
        raise kind(f"store: cannot {what} {path}: {os.strerror(number)}. {advice}") from error
