"""A laboratory with something real beside it that faults are done to: a store (HDFS, S3, a disk of
its own), or the Redis where ranks meet.

Used by `play` for scenarios that name one of `SERVERS`. The nodes are plain processes of this
machine, for an emulated one reaches no server beside its switch.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.checkpoint.layout import BEGIN, MANIFEST, parse_folder
from holdfast.checkpoint.stores import Store, StoreError, open_store
from holdfast.lab import redis
from holdfast.lab.cluster import Lab
from holdfast.lab.emulator.namespaces import Kind
from holdfast.lab.redis import Redis
from holdfast.lab.stores import failing_disk, hdfs, s3
from holdfast.lab.stores.failing_disk import FailingDisk
from holdfast.lab.stores.hdfs import Hdfs
from holdfast.lab.stores.s3 import S3

BUCKET = "chaos"
SMALL_MB = 48
"""The disk of the S3 server that gets full: several checkpoints of the job."""


class StoredLab(Lab):
    """Its jobs' checkpoints go to `server`."""

    def __init__(self, root: Path, server: Hdfs | S3 | FailingDisk, **sizes: Any) -> None:
        super().__init__(root, kind=Kind.LOOPBACK, **sizes)
        self.server = server
        self._url = f"s3://{BUCKET}/chaos"
        if isinstance(server, FailingDisk):
            self._url = f"{server.url}/chaos"
        if isinstance(server, Hdfs):
            self._url = f"hdfs://{server.address}/chaos"

    def submit(self, job: dict[str, Any], within_s: float = 30.0) -> str:
        checkpoint = job["spec"]["checkpoint"] | {"storeUrl": self._url}
        return super().submit(job | {"spec": job["spec"] | {"checkpoint": checkpoint}}, within_s)

    def life(self, job: str) -> Store:
        """The store of the job's life."""
        return open_store(self.job(job)["store_url"])


class MetLab(Lab):
    """The ranks of its jobs meet in `server`."""

    def __init__(self, root: Path, server: Redis, **sizes: Any) -> None:
        super().__init__(root, kind=Kind.LOOPBACK, **sizes)
        self.server = server

    def submit(self, job: dict[str, Any], within_s: float = 30.0) -> str:
        meets = {"communication": {"rendezvous": self.server.url}}
        return super().submit(job | {"spec": job["spec"] | meets}, within_s)


def under_way(store: Store) -> str | None:
    """The folder of a save that has begun and has no manifest, if there is one."""
    try:
        folders = [one.name for one in store.entries("") if one.folder and parse_folder(one.name)]
        newest = max(folders, key=lambda name: parse_folder(name) or (0, 0), default=None)
        names = {one.name for one in store.entries(newest)} if newest else set()
    except StoreError:  # it is dead, or just getting up
        return None
    return newest if BEGIN in names and MANIFEST not in names else None


# ---------------------------------------------------------------- which servers there are


class _Kind(NamedTuple):
    running: Callable[[], AbstractContextManager[Any]]
    missing: Callable[[], str]
    lab: Callable[..., Lab] = StoredLab


@contextmanager
def _with_bucket(room_mb: int) -> Iterator[S3]:
    with s3.running_s3(room_mb=room_mb) as server:
        server.new_bucket(BUCKET)
        yield server


SERVERS = {
    "hdfs": _Kind(hdfs.running_hdfs, hdfs.missing),
    "s3": _Kind(partial(_with_bucket, 0), s3.missing),
    "s3-small": _Kind(partial(_with_bucket, SMALL_MB), s3.missing),
    "disk": _Kind(failing_disk.failing_disk, failing_disk.missing),
    "redis": _Kind(redis.running_redis, redis.missing, MetLab),
}
"""Those that a scenario can name."""


@contextmanager
def laboratory(root: Path, server: str, **sizes: Any) -> Iterator[Lab]:
    """A laboratory with this server beside it, which all in it find by their environment."""
    with (
        SERVERS[server].running() as started,
        _environment(started.environment),
        SERVERS[server].lab(root, started, **sizes) as lab,
    ):
        yield lab


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]
        os.environ.update({name: before[name] for name in values if name in before})
