"""A store that fsspec knows: gs, az, sftp and the like. Made by `open_store`.

fsspec promises little, and its file systems differ: an error may pass for an absent file, a file
may be closed as whole where its writing failed, and a move may do nothing in silence. So a file is
written under another name, its length compared, moved, and looked for. Where a move does not
replace, the older file is gone for a moment. There are no time-outs but those of its library.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from socket import gaierror
from typing import Any

from holdfast.checkpoint.stores import (
    CHUNK_BYTES,
    Buffer,
    NotStored,
    PermanentStoreError,
    StoredFile,
    StoreError,
    TemporaryStoreError,
    missing,
)
from holdfast.kit.files import beside

try:
    import fsspec
except ImportError as error:
    raise missing("this protocol", "train") from error

PATTERNS = "*?["
"""In a path, where fsspec moves and deletes: it would be other files, too."""

_FULL = (errno.ENOSPC, errno.EDQUOT)


class FsspecStore:
    """Files under `url`."""

    def __init__(self, url: str) -> None:
        self._url = url
        with self._told("open", ""):
            self._files, root = _opened(url)
        if set(root) & set(PATTERNS):
            raise PermanentStoreError(
                f"store: {url} has one of {PATTERNS} in it, and fsspec takes that for a pattern. "
                "Give the job another storeUrl."
            )
        self._root = PurePosixPath(root)

    def put(self, path: str, chunks: Iterable[Buffer]) -> None:
        target = self._path(path)
        new = f"{beside(Path(target))}.{os.urandom(4).hex()}.tmp"
        given = _Given(chunks)
        try:
            with self._told("write", path, given):
                self._files.makedirs(str(target.parent), exist_ok=True)
                self._write(new, given)
                self._publish(new, str(target), given.size_bytes)
        except BaseException:
            with suppress(Exception):  # what goes with its folder, else
                self._files.rm_file(new)
            raise

    def get(self, path: str, *, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        target = str(self._path(path))
        with self._told("read", path):
            size = self._size(target)
        last = size if end is None else min(end, size)
        for at in range(begin, last, CHUNK_BYTES):
            until = min(at + CHUNK_BYTES, last)
            with self._told("read", path):
                chunk = bytes(self._files.cat_file(target, start=at, end=until))
                if len(chunk) != until - at:
                    raise TemporaryStoreError(f"{len(chunk)} of {until - at} bytes came")
            yield chunk

    def entries(self, folder: str) -> list[StoredFile]:
        target = str(self._path(folder))
        with self._told("list", folder):
            self._files.invalidate_cache()
            try:
                listed = self._files.ls(target, detail=True)
            except FileNotFoundError:
                return []
            found = [_entry(one) for one in listed if not _is(one, target)]
            if any(_is(one, target) and one["type"] == "file" for one in listed):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return sorted(
            (one for one in found if not one.name.endswith(".tmp")), key=lambda one: one.name
        )

    def delete(self, path: str) -> None:
        with self._told("delete", path):
            self._files.invalidate_cache()
            with suppress(FileNotFoundError):
                self._files.rm(str(self._path(path)), recursive=True)

    def _path(self, path: str) -> PurePosixPath:
        return self._root / path

    def _write(self, new: str, given: "_Given") -> None:
        file = self._files.open(new, "wb")
        try:
            for chunk in given:
                file.write(chunk)
        finally:  # what it commits then has no name that counts
            file.close()

    def _publish(self, new: str, target: str, size: int) -> None:
        self._files.invalidate_cache()
        if (there := self._size(new)) != size:
            raise TemporaryStoreError(f"{there} of {size} bytes arrived")
        self._move(new, target)
        if self._is_there(new) and self._is_there(target):  # it does not replace
            self._files.rm_file(target)
            self._move(new, target)
        if self._is_there(new) or self._size(target) != size:
            raise TemporaryStoreError("the move into place did not happen")

    def _move(self, new: str, target: str) -> None:
        with suppress(FileExistsError):
            self._files.mv(new, target)
        self._files.invalidate_cache()

    def _is_there(self, path: str) -> bool:
        try:
            self._files.info(path)
        except FileNotFoundError:
            return False
        return True

    def _size(self, path: str) -> int:
        found = self._files.info(path)
        if found["type"] != "file":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        return int(found["size"])

    @contextmanager
    def _told(self, what: str, path: str, given: "_Given | None" = None) -> Iterator[None]:
        """Turn whatever its library raises into the store's own: each has errors of its own."""
        where = f"{self._url.rstrip('/')}/{path}"
        try:
            yield
        except StoreError as error:
            raise type(error)(
                f"store: cannot {what} {where}: {error}. It is tried again."
            ) from error
        except Exception as error:
            if given is not None and given.failed is error:
                raise
            if what == "read" and isinstance(error, FileNotFoundError):
                raise NotStored(f"store: {where} is not there") from error
            raise _named(error, f"store: cannot {what} {where}") from error


class _Given:
    """What is to be written: how much it was, and whether it was its source that failed."""

    def __init__(self, chunks: Iterable[Buffer]) -> None:
        self._chunks = chunks
        self.size_bytes = 0
        self.failed: BaseException | None = None

    def __iter__(self) -> Iterator[Buffer]:
        try:
            for chunk in self._chunks:
                self.size_bytes += memoryview(chunk).nbytes
                yield chunk
        except BaseException as error:
            self.failed = error
            raise


def _opened(url: str) -> tuple[Any, str]:
    """Its file system, and the path in it. Raises what its library does."""
    try:
        found: tuple[Any, str] = fsspec.core.url_to_fs(url, skip_instance_cache=True)
    except ImportError as error:
        raise PermanentStoreError(str(error)) from error
    return found


def _named(error: Exception, failed: str) -> StoreError:
    if isinstance(error, PermissionError):
        return PermanentStoreError(f"{failed}: {_why(error)}. Let the nodes write there.")
    if isinstance(error, NotADirectoryError | IsADirectoryError):
        return PermanentStoreError(f"{failed}: {_why(error)}. Give the job another storeUrl.")
    if isinstance(error, OSError) and error.errno in _FULL:
        return TemporaryStoreError(f"{failed}: {_why(error)}. Free space there.")
    return TemporaryStoreError(f"{failed}: {_why(error)}. It is tried again.")


def _why(error: Exception) -> str:
    """Its kind and first line, and not what its library knows of keys."""
    if isinstance(error, OSError) and error.errno:  # a resolver has numbers of its own
        return str(error.strerror) if isinstance(error, gaierror) else os.strerror(error.errno)
    first = (str(error).splitlines() or [""])[0][:200]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _is(one: dict[str, Any], path: str) -> bool:
    return str(one["name"]).strip("/") == path.strip("/")


def _entry(one: dict[str, Any]) -> StoredFile:
    folder = one["type"] == "directory"
    name = PurePosixPath(one["name"]).name
    return StoredFile(name, 0 if folder else int(one["size"] or 0), folder)
