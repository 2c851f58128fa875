"""Deleting what a commit made superfluous, in a thread of its own: what is acknowledged does not
wait for it, nor does the next checkpoint, and a store that is slow at it does not fail.

Used by the agent's store side. What could not be deleted is tried again after the next commit.
"""

from collections.abc import Callable
from threading import Event, Lock

import msgspec

from holdfast.checkpoint.fence import Superseded, check_fence
from holdfast.checkpoint.layout import MANIFEST, folder_name, is_passing, parse_fence, parse_folder
from holdfast.checkpoint.retention import Kept, expendable
from holdfast.checkpoint.stores import Store, StoreError, open_store
from holdfast.kit.clock import Clock

LONG_S = 60.0
"""After a deletion that takes longer it is said that nothing is deleted meanwhile."""


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint that is whole, and how many of those are kept with it. `fence_epoch`: of the
    attempt that says so."""

    store_url: str
    step: int
    epoch: int
    fence_epoch: int
    retention: int


class Sweeper:
    """Sweeps after the newest commit. `tell` takes notes for the executor."""

    def __init__(self, clock: Clock, tell: Callable[[str], None]) -> None:
        self._clock = clock
        self._tell = tell
        self._wake = Event()
        self._closed = False
        self._lock = Lock()  # of the two below
        self._due: Committed | None = None
        self._now: Committed | None = None
        self._began_s = 0.0

    @property
    def idle(self) -> bool:
        """Nothing is being deleted, nor has to be."""
        with self._lock:
            return self._due is None and self._now is None

    def give(self, committed: Committed) -> None:
        """Sweep after this one, once that is possible; of several the newest does for all."""
        with self._lock:
            self._due = committed
            late = self._now is not None and self._clock.monotonic_s() - self._began_s > LONG_S
        if late:
            self._tell("old checkpoints are not deleted: the store has not done it for a minute")
        self._wake.set()

    def stop(self) -> None:
        """What is under way ends after the file at hand: another attempt has begun."""
        with self._lock:
            self._due = self._now = None

    def close(self) -> None:
        self.stop()
        self._closed = True
        self._wake.set()

    def run(self) -> None:
        """The thread: until closed."""
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._closed:
                return
            self._sweep()

    def _sweep(self) -> None:
        with self._lock:
            committed, self._due = self._due, None
            self._now, self._began_s = committed, self._clock.monotonic_s()
        if committed is None:
            return

        def go_on() -> None:
            if self._now is not committed:
                raise Superseded("another attempt has begun")

        try:
            sweep(open_store(committed.store_url), committed, go_on=go_on)
        except Superseded:
            pass
        except StoreError as error:
            self._tell(f"old checkpoints are not deleted: {error}")
        with self._lock:
            self._now = None if self._now is committed else self._now


def sweep(store: Store, committed: Committed, *, go_on: Callable[[], None]) -> None:
    """Delete parts of whole checkpoints, old checkpoints and torn ones, and fences of older epochs.

    Raises `StoreError`, `Superseded`, or what `go_on` does, which is asked before each deletion.
    """
    check_fence(store, committed.fence_epoch)
    kept = []
    for entry in store.entries(""):
        if (fenced := parse_fence(entry.name)) is not None and fenced < committed.fence_epoch:
            go_on()
            store.delete(entry.name)
        place = parse_folder(entry.name) if entry.folder else None
        if place is None or place[1] > committed.epoch:
            continue
        names = [each.name for each in store.entries(entry.name)]
        whole = MANIFEST in names
        kept.append(Kept(place[0], place[1], whole))
        for name in names if whole else ():
            if is_passing(name):
                go_on()
                store.delete(f"{entry.name}/{name}")
    keep, step, epoch = committed.retention, committed.step, committed.epoch
    for old in expendable(kept, step=step, epoch=epoch, keep=keep):
        check_fence(store, committed.fence_epoch)  # the one before may have taken long
        _delete(store, folder_name(old.step, old.epoch), go_on)


def _delete(store: Store, folder: str, go_on: Callable[[], None]) -> None:
    """The manifest first: what is half deleted is no checkpoint."""
    names = [entry.name for entry in store.entries(folder)]
    for name in sorted(names, key=lambda name: name != MANIFEST):
        go_on()
        store.delete(f"{folder}/{name}")
    store.delete(folder)
