"""Where checkpoints go: one small protocol, one file a technology.

Used by agents (write, list, delete) and ranks (read). A store must never show a file that is not
whole under its final name; whether to try again is in the type of the error.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from holdfast.protocol import storeurl

Buffer = bytes | bytearray | memoryview

FLUSH_BYTES = 16 << 20
"""Written at once: whoever gives the chunks sees how a slow store gets on, 1 MB/s too, and no page
of a large file waits in memory that training may want."""

CHUNK_BYTES = 4 << 20
"""Read at once."""


class StoreError(Exception):
    """The store failed; the message says at what, on which path, and what to do about it."""


class TemporaryStoreError(StoreError):
    """It may work later: full, slow, away."""


class PermanentStoreError(StoreError):
    """It will fail again until somebody changes something: not permitted, not a folder."""


class NotStored(StoreError):
    """There is no such file."""


class StoredFile(msgspec.Struct, frozen=True, eq=False):
    """One entry of a folder. A folder has size 0. `changed_s`: seconds since 1970 at which it was
    written, None where the store does not say; it is no part of what it is.
    """

    name: str
    size_bytes: int
    folder: bool
    changed_s: float | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoredFile) and self._known == other._known

    def __hash__(self) -> int:
        return hash(self._known)

    @property
    def _known(self) -> tuple[str, int, bool]:
        return self.name, self.size_bytes, self.folder


class Store(Protocol):
    """Files under a root, by relative paths with `/`. Every method raises `StoreError`."""

    def put(self, path: str, chunks: Iterable[Buffer]) -> None:
        """Write a file whole and durable, or leave what was there; replaces an older one."""
        ...

    def get(self, path: str, *, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The file's bytes from `begin` up to `end` (None: all), in pieces, as far as it has them.
        Raises `NotStored` where there is no file.
        """
        ...

    def entries(self, folder: str) -> list[StoredFile]:
        """What is in a folder ("" is the root), by name; nothing where there is no such folder."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file, or a folder with all in it; no error where there is none."""
        ...


def open_store(url: str) -> Store:
    """The store at `url`, e.g. `file:///data/checkpoints/my-job`. Nothing is asked of it yet.

    Raises `PermanentStoreError` where there is no such kind of store, or its library is missing.
    """
    place = storeurl.place_of(url)
    if place is None:
        raise PermanentStoreError(_unknown(url))
    # Each library is loaded where it is used: a rank that restores from a folder waits for none.
    if place.scheme == "file":
        from holdfast.checkpoint.stores.file import FileStore

        return FileStore(place.path)
    if place.scheme in storeurl.HDFS:
        from holdfast.checkpoint.stores.hdfs import HdfsStore

        return HdfsStore(place.authority, place.path)
    if place.scheme in storeurl.S3:
        from holdfast.checkpoint.stores.s3 import S3Store

        return S3Store(place.authority, place.path)
    from holdfast.checkpoint.stores.anywhere import FsspecStore

    return FsspecStore(url)


def _unknown(url: str) -> str:
    if storeurl.has_password(url):
        return f"storeUrl: {storeurl.SECRET} {storeurl.SECRET_FIX}"
    wrong = storeurl.amiss(url)
    return f"storeUrl: {url!r} {wrong.what} {wrong.fix}"


def missing(what: str, extra: str) -> PermanentStoreError:
    """A library that is not installed here."""
    return PermanentStoreError(
        f"store: {what} needs a library that is not installed here. "
        f"Install it on every node: pip install 'holdfast[{extra}]'"
    )
