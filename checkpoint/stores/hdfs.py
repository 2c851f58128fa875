"""A store in HDFS, over WebHDFS. Made by `open_store`.

A file is written under another name, its length compared, and renamed over what was there: HDFS
shows a truncated file of a client that died like any other. A DataNode that fails is left out from
then on, for a NameNode goes on to name it for up to ten minutes.
"""

import getpass
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from holdfast.checkpoint.stores import (
    Buffer,
    NotStored,
    PermanentStoreError,
    StoredFile,
    StoreError,
    TemporaryStoreError,
)
from holdfast.checkpoint.stores.datanode import Upload, download, taken
from holdfast.checkpoint.stores.hdfs_errors import NoAnswer
from holdfast.checkpoint.stores.resumed import resumed
from holdfast.checkpoint.stores.webhdfs import WebHdfs
from holdfast.kit.files import beside

TRIES = 3
"""DataNodes that are asked, one after another."""

SMALL_BLOCK_BYTES = 1 << 20
"""Of a file that is one piece: a space quota is charged a whole block at first. Hadoop's least."""


class HdfsStore:
    """Files under `root`, which is made at the first write.

    `user`: "" is who HADOOP_USER_NAME says, else the account's own name.
    """

    def __init__(self, namenodes: str, root: str, *, user: str = "") -> None:
        user = user or os.environ.get("HADOOP_USER_NAME") or _account()
        self._hdfs = WebHdfs(namenodes, user)
        self._root = PurePosixPath(root)
        self._where = f"hdfs://{namenodes}"
        self.left_out: set[str] = set()
        """DataNodes that have failed, and are not asked while there are others."""

    def put(self, path: str, chunks: Iterable[Buffer]) -> None:
        target = self._path(path)
        new = f"{beside(Path(target))}.{os.urandom(4).hex()}.tmp"
        with self._told("write", target):
            try:
                self._publish(new, str(target), self._write(new, chunks))
            except BaseException:
                with suppress(StoreError):  # what goes with the folder, else
                    self._hdfs.ask("DELETE", "DELETE", new)
                raise

    def get(self, path: str, *, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        target = self._path(path)
        with self._told("read", target):
            size = self._length(str(target))
            last = size if end is None else min(end, size)
            yield from resumed(lambda at: self._read(str(target), at, last), begin)

    def entries(self, folder: str) -> list[StoredFile]:
        target = self._path(folder)
        with self._told("list", target):
            try:
                listed = self._hdfs.ask("GET", "LISTSTATUS", str(target))
            except NotStored:
                return []
            found = [_entry(one) for one in _of(_of(listed, "FileStatuses"), "FileStatus")]
            if any(not one.name for one in found):
                raise PermanentStoreError("it is a file. Give the job a storeUrl that is a folder.")
        return sorted(
            (one for one in found if not one.name.endswith(".tmp")), key=lambda one: one.name
        )

    def delete(self, path: str) -> None:
        target = self._path(path)
        with self._told("delete", target):
            self._hdfs.ask("DELETE", "DELETE", str(target), recursive="true")

    def _path(self, path: str) -> PurePosixPath:
        return self._root / path

    # ------------------------------------------------------------ writing

    def _write(self, new: str, chunks: Iterable[Buffer]) -> int:
        """How many bytes a DataNode has taken."""
        small = {"blocksize": str(SMALL_BLOCK_BYTES)} if isinstance(chunks, list) else {}
        with ExitStack() as held:
            upload = self._accepted(held, new, small)
            try:
                return upload.send(chunks)
            except NoAnswer:
                self._leave_out(upload.location)
                raise

    def _accepted(self, held: ExitStack, new: str, options: dict[str, str]) -> Upload:
        """By the first DataNode that takes a connection: from then on `chunks` are used up."""
        for left in reversed(range(TRIES)):
            location = self._located("PUT", "CREATE", new, overwrite="true", **options)
            try:
                return held.enter_context(taken(location))
            except NoAnswer:
                self._leave_out(location)
                if not left:
                    raise
        raise AssertionError("no try is made")

    def _publish(self, new: str, target: str, sent: int) -> None:
        length = self._length(new)
        if length != sent:
            raise TemporaryStoreError(f"{length} of {sent} bytes arrived. It is tried again.")
        said = self._hdfs.ask("PUT", "RENAME", new, destination=target, renameoptions="OVERWRITE")
        if said.get("boolean") is False:  # with status 200, of a gateway that knows no OVERWRITE
            raise TemporaryStoreError("the rename into place was refused. It is tried again.")

    # ------------------------------------------------------------ reading

    def _read(self, path: str, begin: int, end: int) -> Iterator[bytes]:
        if (length := end - begin) <= 0:
            return
        location = self._located("GET", "OPEN", path, offset=str(begin), length=str(length))
        try:
            yield from download(location, length)
        except TemporaryStoreError:
            self._leave_out(location)
            raise

    def _length(self, path: str) -> int:
        status = _of(self._hdfs.ask("GET", "GETFILESTATUS", path), "FileStatus")
        if _of(status, "type") != "FILE":
            raise PermanentStoreError("it is a folder. Give the job another storeUrl.")
        return int(_of(status, "length"))

    # ------------------------------------------------------------ DataNodes

    def _located(self, method: str, op: str, path: str, **options: str) -> str:
        """At a DataNode that has not failed; where there is no other, at any."""
        if self.left_out:
            options["excludedatanodes"] = ",".join(sorted(self.left_out))
        try:
            return self._hdfs.redirected(method, op, path, **options)
        except TemporaryStoreError:
            self.left_out.clear()
            raise

    def _leave_out(self, location: str) -> None:
        self.left_out.add(self._hdfs.datanode(location))

    @contextmanager
    def _told(self, what: str, path: PurePosixPath) -> Iterator[None]:
        """Say at what it failed, and where."""
        try:
            yield
        except NotStored as error:
            raise NotStored(f"store: {self._where}{path} is not there") from error
        except StoreError as error:
            raise type(error)(f"store: cannot {what} {self._where}{path}: {error}") from error


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        why = "store: this account has no name, and HDFS asks for one. Set HADOOP_USER_NAME."
        raise PermanentStoreError(why) from error


def _of(answer: Any, key: str) -> Any:
    """A part of what a NameNode answered."""
    if not isinstance(answer, dict) or key not in answer:
        raise TemporaryStoreError(f"the answer has no {key}: {str(answer)[:80]}")
    return answer[key]


def _entry(status: Any) -> StoredFile:
    folder = _of(status, "type") == "DIRECTORY"
    changed_ms = status.get("modificationTime")
    return StoredFile(
        _of(status, "pathSuffix"),
        0 if folder else _of(status, "length"),
        folder,
        changed_ms / 1000 if isinstance(changed_ms, int) else None,
    )
