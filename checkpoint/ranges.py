"""Ranges of a checkpoint's shards, read block by block and in parallel, each block checked.

Used by ranks that restore what another layout has saved. A shard whose blocks have no checksums is
read whole. Must not load torch, nor give a byte that was not checked.
"""

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

import xxhash

from holdfast.checkpoint.fetch import Refused, Unreadable
from holdfast.checkpoint.layout import Layout, parse_head
from holdfast.checkpoint.manifest import File
from holdfast.checkpoint.stores import NotStored, Store

THREADS = 8
"""Ranges on their way at once: a store far away answers each slowly, and many together."""

LENGTH_BYTES = 8
"""A shard begins with the length of its header."""


class Ranges:
    """The shards of one folder. Close it, with its threads and what it has read."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder = store, folder
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="ranges")
        self._lock = Lock()
        self._blocks: dict[tuple[str, int], Future[bytes]] = {}
        self._heads: dict[str, Layout] = {}

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._blocks.clear()

    def ask(self, file: File, begin: int, end: int) -> None:
        """Begin to read this range; each block of it once, whoever else needs it."""
        for number in _blocks(file, begin, end):
            self._block(file, number)

    def read(self, file: File, begin: int, end: int) -> bytearray:
        """The bytes of this range. Raises `Refused` or `StoreError`."""
        self.ask(file, begin, end)
        data, size = bytearray(), _size(file)
        for number in _blocks(file, begin, end):
            block = self._block(file, number).result()
            first = number * size
            data += memoryview(block)[max(0, begin - first) : end - first]
        return data

    def head(self, file: File) -> Layout:
        """Where its tensors lie. Raises `Refused` or `StoreError`."""
        if file.name not in self._heads:
            first = self.read(file, 0, min(LENGTH_BYTES, file.size_bytes))
            length = LENGTH_BYTES + int.from_bytes(first, "little")
            data = self.read(file, 0, min(length, file.size_bytes))
            self._heads[file.name] = parse_head(data)
        return self._heads[file.name]

    def _block(self, file: File, number: int) -> "Future[bytes]":
        with self._lock:
            key = file.name, number
            if key not in self._blocks:
                self._blocks[key] = self._pool.submit(self._fetch, file, number)
            return self._blocks[key]

    def _fetch(self, file: File, number: int) -> bytes:
        begin = number * _size(file)
        end = min(begin + _size(file), file.size_bytes)
        path = f"{self._folder}/{file.name}"
        try:
            data = b"".join(self._store.get(path, begin=begin, end=end))
        except NotStored as error:
            raise Unreadable(f"{path}: the shard is not there") from error
        wanted = file.blocks[number] if file.blocks else file.xxh3
        if len(data) != end - begin or xxhash.xxh3_64_hexdigest(data) != wanted:
            raise Refused(f"{path}: its checksum does not match the manifest's")
        return data


def _size(file: File) -> int:
    return file.block_bytes if file.blocks else max(1, file.size_bytes)


def _blocks(file: File, begin: int, end: int) -> Iterable[int]:
    return range(begin // _size(file), -(-end // _size(file))) if end > begin else ()
