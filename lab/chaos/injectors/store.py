"""Faults 21 to 23 of a store: it is full, slow or away, fails, or is killed in a save."""

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from random import Random
from threading import Event, Thread

from msgspec.structs import replace

from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector, node
from holdfast.lab.chaos.stored import StoredLab, under_way
from holdfast.lab.cluster import Lab
from holdfast.lab.emulator.inside import NotPossible
from holdfast.lab.stores.failing_disk import FailingDisk
from holdfast.lab.stores.hdfs import DATANODES, Hdfs
from holdfast.lab.stores.s3 import S3

BEFORE_S, AFTER_S = 2.0, 8.0
"""Longer than it takes to save five steps, and than a recovery takes."""
KILLS = 2
WITHIN_S = 60.0
INTO_A_SAVE_S = 0.1
"""At most so long after it was seen to be under way the server dies."""
DEAD_S = (0.5, 3.0)
PIECE = bytes(64 << 10)
MOST_BYTES = 256 << 20
"""A disk that is larger is somebody's, and is not filled."""
STANDS_S, GOES_S = 0.3, 0.03
"""A store that gives a tenth of what it could, and answers late."""

Server = Hdfs | S3 | FailingDisk
Kill = Callable[[Server, Random], str]
"""Ends one of the server's processes at once, and says which."""


def killed_in_saves(kill: Kill) -> Injector:
    """SIGKILL to a process of the store while a save is under way, twice; each time it is started
    again, and a newer checkpoint is waited for. Then all nodes are lost: the store is all there is.
    """

    def do(lab: Lab, job: str, rng: Random) -> Done:
        beside = _beside(lab)
        said = [_killed(beside, job, rng, kill) for _ in range(KILLS)]
        done = node.all_lost(lab, job, rng)
        return replace(done, said=f"{'; '.join(said)}; then {done.said}")

    return do


def _killed(lab: StoredLab, job: str, rng: Random, kill: Kill) -> str:
    folder = target.wait_for(
        partial(under_way, lab.life(job)), f"a save of {job} under way", WITHIN_S
    )
    time.sleep(rng.uniform(0, INTO_A_SAVE_S))
    said = kill(lab.server, rng)
    time.sleep(rng.uniform(*DEAD_S))
    before = lab.job(job)["stored_step"] or 0
    lab.server.mend()
    lab.wait(job, lambda seen: (seen["stored_step"] or 0) > before, within_s=WITHIN_S)
    return f"SIGKILL to {said} in {folder}"


def namenode(server: Server, _rng: Random) -> str:
    assert isinstance(server, Hdfs)
    server.kill_namenode()
    return "the NameNode"


def datanode(server: Server, rng: Random) -> str:
    """One that takes bytes now, if one does."""
    assert isinstance(server, Hdfs)
    nth = rng.choice(server.writers() or range(DATANODES))
    server.kill_datanode(nth)
    return f"DataNode {nth}"


def s3_server(server: Server, _rng: Random) -> str:
    assert isinstance(server, S3)
    server.kill()
    return "the S3 server"


def full_and(other: Injector) -> Injector:
    """The disk of the store is full, and while it is another fault is done."""
    return _meanwhile(lambda lab, _: _full(_s3(lab)), "the disk of the store is full", other)


def slow_and(other: Injector) -> Injector:
    """The store stands still most of the time, and meanwhile another fault is done."""
    return _meanwhile(
        lambda lab, _: _slow(_s3(lab)), "the store stands still most of the time", other
    )


def down_and(other: Injector) -> Injector:
    """The store is away, and while it is another fault is done."""
    return _meanwhile(_away, "the store is away", other)


def failing_and(other: Injector) -> Injector:
    """The disk of the store fails in the middle of a save (EIO), and another fault is done."""
    return _meanwhile(_fails, "the disk of the store fails in a save", other)


def _meanwhile(
    state: Callable[[Lab, str], AbstractContextManager[None]], says: str, other: Injector
) -> Injector:
    def do(lab: Lab, job: str, rng: Random) -> Done:
        with state(lab, job):
            time.sleep(BEFORE_S)
            done = other(lab, job, rng)
            time.sleep(AFTER_S)
        return replace(done, said=f"{says}, meanwhile {done.said}")

    return do


@contextmanager
def _full(server: S3) -> Iterator[None]:
    info = os.statvfs(server.disk)
    assert info.f_blocks * info.f_frsize <= MOST_BYTES, "a disk of the server's own"
    filler = server.disk / ".filler"
    with filler.open("wb", buffering=0) as file:
        try:
            _fill(file.write)
            yield
        finally:
            filler.unlink()


def _fill(write: Callable[[bytes], object]) -> None:
    try:
        while True:
            write(PIECE)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


@contextmanager
def _slow(server: S3) -> Iterator[None]:
    over = Event()

    def hold() -> None:
        while not over.is_set():
            os.kill(server.pid, signal.SIGSTOP)
            over.wait(STANDS_S)
            os.kill(server.pid, signal.SIGCONT)
            over.wait(GOES_S)

    thread = Thread(target=hold)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _fails(lab: Lab, job: str) -> Iterator[None]:
    beside = _beside(lab)
    disk = beside.server
    assert isinstance(disk, FailingDisk)
    target.wait_for(partial(under_way, beside.life(job)), f"a save of {job} under way", WITHIN_S)
    disk.fail()
    try:
        yield
    finally:
        disk.mend()


@contextmanager
def _away(lab: Lab, job: str) -> Iterator[None]:
    """A file is where its folder should be: nothing can be written or read there, nor made."""
    folder = lab.store(job)
    aside = folder.rename(folder.with_suffix(".aside"))
    folder.touch()
    try:
        yield
    finally:
        folder.unlink()
        aside.rename(folder)


def _beside(lab: Lab) -> StoredLab:
    if not isinstance(lab, StoredLab):
        raise NotPossible("it is done to a real store beside an emulated cluster")
    return lab


def _s3(lab: Lab) -> S3:
    server = _beside(lab).server
    assert isinstance(server, S3)
    return server
