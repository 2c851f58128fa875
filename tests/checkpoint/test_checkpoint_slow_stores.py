"""Stores that are slow are no failing ones; what an agent says of them, by its clock."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from waiting import DEADLINE_S

from holdfast.checkpoint.progress import TELL_EVERY_S, Progress
from holdfast.checkpoint.stores import FLUSH_BYTES, Buffer, PermanentStoreError
from holdfast.checkpoint.stores.file import FileStore
from holdfast.checkpoint.timed_store import LONGEST_STALL_S, STALL_S, Answers, Timed


class Clock:
    """Virtual time."""

    now = 0.0

    def monotonic_s(self) -> float:
        return self.now

    def wall_s(self) -> float:
        return self.now


class Slow(FileStore):
    """Each piece, and each call, takes `takes_s`; `seen` is asked in the middle of it."""

    def __init__(self, root: Path, clock: Clock, answers: Answers) -> None:
        super().__init__(str(root))
        self.clock, self.answers = clock, answers
        self.takes_s = 0.0
        self.overdue: list[bool] = []

    def _works(self) -> None:
        self.clock.now += self.takes_s
        self.overdue.append(self.answers.overdue)

    def put(self, path: str, chunks: Iterable[Buffer]) -> None:
        def slowly() -> Iterator[Buffer]:
            for chunk in chunks:
                self._works()
                yield chunk

        super().put(path, slowly())

    def delete(self, path: str) -> None:
        self._works()
        super().delete(path)


@pytest.fixture
def slow(tmp_path: Path) -> tuple[Slow, Timed]:
    answers = Answers(Clock())
    inner = Slow(tmp_path, answers._clock, answers)
    return inner, Timed(inner, answers)


def test_a_deletion_is_nothing_that_anybody_waits_for(slow) -> None:
    inner, store = slow
    store.put("a", [b"x"])
    inner.takes_s = 10 * STALL_S
    store.delete("a")
    assert inner.overdue == [False, False]
    assert inner.answers.patience_s == STALL_S


def test_a_store_that_was_slow_before_is_waited_for_longer(slow) -> None:
    inner, store = slow
    inner.takes_s = STALL_S + 10
    store.put("a", [b"x", b"y"])
    assert inner.overdue == [True, False]
    inner.takes_s = LONGEST_STALL_S
    store.put("b", [b"x"])
    assert inner.overdue[-1]
    assert inner.answers.patience_s == LONGEST_STALL_S


def test_what_may_only_be_in_memory_is_not_taken_yet(slow) -> None:
    inner, store = slow
    taken = []
    pieces = [bytes(FLUSH_BYTES // 2)] * 4

    def chunks() -> Iterator[bytes]:
        for piece in pieces:
            taken.append(inner.answers.taken_bytes)
            yield piece

    store.put("a", chunks())
    assert taken == [0, 0, 0, FLUSH_BYTES // 2]
    assert inner.answers.taken_bytes == 2 * FLUSH_BYTES
    assert b"".join(store.get("a")) == b"".join(pieces)
    assert [entry.name for entry in store.entries("")] == ["a"]


def test_of_a_file_that_was_refused_nothing_is_taken(slow) -> None:
    """Else a full store, asked again and again, would look like one that gets on."""
    inner, store = slow
    store.put("a", [b"x"])

    def refused() -> Iterator[bytes]:
        yield bytes(2 * FLUSH_BYTES)
        raise PermanentStoreError("store: no space left.")

    for _ in range(2):
        with pytest.raises(PermanentStoreError):
            store.put("b", refused())
        assert inner.answers.taken_bytes == 1


def test_what_was_told_of_a_snapshot_is_not_taken_back_by_a_refusal() -> None:
    """A file that was half taken when the snapshot was ordered, and then refused, is no debt."""
    clock = Clock()
    answers = Answers(clock)
    answers.taken_bytes = 500
    saved = Progress(clock, answers)
    saved.begin()
    told = []
    for taken in (700, 400, 900):
        answers.taken_bytes = taken
        told.append(saved.told_bytes)
        clock.now += 2 * TELL_EVERY_S
    assert told == [200, 200, 400]


def test_of_several_threads_that_ask_at_once_the_one_that_waits_longest_counts() -> None:
    clock = Clock()
    answers = Answers(clock)
    hangs, begun = Event(), Event()

    def hang() -> None:
        with answers.asked():
            begun.set()
            hangs.wait(DEADLINE_S)

    thread = Thread(target=hang)
    thread.start()
    assert begun.wait(DEADLINE_S)
    clock.now += STALL_S
    with answers.asked():
        pass
    assert answers.overdue, "another's answer is not this one's"
    hangs.set()
    thread.join(DEADLINE_S)
    assert not answers.overdue
