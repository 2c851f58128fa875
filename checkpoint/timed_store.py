"""How a store answers: since when it owes an answer, how long its slowest took, what it has taken.

Used by the agent's store thread, around the store; read by other threads. A store that hangs
refuses nothing, and one that is slow is no less a store.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import get_ident

from holdfast.checkpoint.stores import FLUSH_BYTES, Buffer, Store, StoredFile
from holdfast.kit.clock import Clock

STALL_S = 30.0
"""A store that has not answered for so long is said to fail. (A call to it is a look at a folder, a
piece of a file, or the flush of one.)"""

SLOWER = 2.0
"""So many times as long as its slowest answer so far took it is waited for, where that is more."""

LONGEST_STALL_S = 120.0
"""And no longer: a store that takes two minutes for 16 MiB is of no use."""


class Answers:
    """Of a store, whatever threads ask it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked_s: dict[int, float] = {}  # by the thread that waits
        self._slowest_s = 0.0
        self.taken_bytes = 0
        """Of all files, what is surely on its disk."""

    @property
    def patience_s(self) -> float:
        """How long it may owe an answer until it is said to fail."""
        return max(STALL_S, min(SLOWER * self._slowest_s, LONGEST_STALL_S))

    @property
    def overdue(self) -> bool:
        asked_s = min(list(self._asked_s.values()), default=None)
        return asked_s is not None and self._clock.monotonic_s() - asked_s >= self.patience_s

    @contextmanager
    def asked(self) -> Iterator[None]:
        """While the block lasts it owes an answer."""
        self._asked_s[get_ident()] = self._clock.monotonic_s()
        try:
            yield
            self.answered()
        finally:
            self._asked_s.pop(get_ident(), None)

    def answered(self) -> None:
        """It has, and owes the next answer."""
        now = self._clock.monotonic_s()
        if (asked_s := self._asked_s.get(get_ident())) is not None:
            self._slowest_s = max(self._slowest_s, now - asked_s)
        self._asked_s[get_ident()] = now


class Timed:
    """A store whose answers are noted in `answers`, but for deletions: nothing waits for those."""

    def __init__(self, store: Store, answers: Answers) -> None:
        self._store = store
        self._answers = answers

    def put(self, path: str, chunks: Iterable[Buffer]) -> None:
        before = taken = self._answers.taken_bytes
        given = 0

        def noted() -> Iterator[Buffer]:
            nonlocal given
            for chunk in chunks:
                yield chunk
                given += memoryview(chunk).nbytes
                self._answers.taken_bytes = before + max(0, given - FLUSH_BYTES)
                self._answers.answered()

        try:
            with self._answers.asked():
                self._store.put(path, noted())
            taken = before + given
        finally:  # of a file that was refused it has nothing, though it took pieces of it
            self._answers.taken_bytes = taken

    def get(self, path: str, *, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        chunks = iter(self._store.get(path, begin=begin, end=end))
        while True:
            with self._answers.asked():
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk

    def entries(self, folder: str) -> list[StoredFile]:
        with self._answers.asked():
            return self._store.entries(folder)

    def delete(self, path: str) -> None:
        self._store.delete(path)
