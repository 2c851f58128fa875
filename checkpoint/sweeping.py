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
"""A deletion that takes longer hangs, as far as anybody knows."""
FAILURES = 3
"""Sweeps in a row that failed: one or two may meet what passes."""


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint that is whole, and how many of those are kept with it. `fence_epoch`: of the
    attempt that says so."""

    store_url: str
    step: int
    epoch: int
    fence_epoch: int
    retention: int
    keep_every_steps: int = 0


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
        self._url = ""  # of the store that the rest is about
        self._asked_s: float | None = None  # since when it owes an answer
        self._failures = 0
        self._why = ""
        self._swept = False

    @property
    def idle(self) -> bool:
        """Nothing is being deleted, nor has to be."""
        with self._lock:
            return self._due is None and self._now is None

    def give(self, committed: Committed) -> None:
        """Sweep after this one, once that is possible; of several the newest does for all."""
        with self._lock:
            self._due = committed
        self._wake.set()

    def undeleted(self, store_url: str) -> str:
        """Why this store does not let go of old checkpoints, and what to do; "" where it does, or
        may have failed for once.
        """
        if store_url != self._url:
            return ""
        asked_s = self._asked_s
        if asked_s is not None and self._clock.monotonic_s() - asked_s > LONG_S:
            return (
                f"store: {store_url} has not ended a deletion for {LONG_S:g} s. See that its file "
                "system deletes on this node; it is waited for."
            )
        return self._why if self._failures >= FAILURES else ""

    def swept(self, store_url: str) -> bool:
        """Whether the last sweep of this store deleted all that it should."""
        return store_url == self._url and self._swept

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
            self._now = committed
        if committed is None:
            return
        if committed.store_url != self._url:
            self._url, self._failures, self._swept = committed.store_url, 0, False
        try:
            self._sweep_after(committed)
        except Superseded:
            pass
        except StoreError as error:
            self._tell(f"old checkpoints are not deleted: {error}")
            self._failures, self._why, self._swept = self._failures + 1, str(error), False
        else:
            self._failures, self._swept = 0, True
        self._asked_s = None
        with self._lock:
            self._now = None if self._now is committed else self._now

    def _sweep_after(self, committed: Committed) -> None:
        def go_on() -> None:
            if self._now is not committed:
                raise Superseded("another attempt has begun")
            self._asked_s = self._clock.monotonic_s()

        self._asked_s = self._clock.monotonic_s()
        sweep(open_store(committed.store_url), committed, go_on=go_on)


def sweep(store: Store, committed: Committed, *, go_on: Callable[[], None]) -> None:
    """Delete parts of whole checkpoints, old checkpoints and torn ones, and fences of older epochs.

    Raises `StoreError`, `Superseded`, or what `go_on` does, which is asked before each deletion.
    """
    check_fence(store, committed.fence_epoch)
    kept = []
    found = list(store.entries(""))
    for entry in found:
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
    every = committed.keep_every_steps
    for old in expendable(kept, step=step, epoch=epoch, keep=keep, keep_every_steps=every):
        check_fence(store, committed.fence_epoch)  # the one before may have taken long
        _delete(store, folder_name(old.step, old.epoch), go_on)
    for entry in found:  # last: they take no room
        fenced = parse_fence(entry.name)
        if fenced is not None and fenced < committed.fence_epoch:
            go_on()
            store.delete(entry.name)


def _delete(store: Store, folder: str, go_on: Callable[[], None]) -> None:
    """The manifest first: what is half deleted is no checkpoint."""
    names = [entry.name for entry in store.entries(folder)]
    for name in sorted(names, key=lambda name: name != MANIFEST):
        go_on()
        store.delete(f"{folder}/{name}")
    store.delete(folder)
