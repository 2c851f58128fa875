"""For how long Python's garbage collector ran is in the ring, and only where the ring is ours."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.telemetry import garbage, hooks
from holdfast.telemetry.ring import RingReader, RingWriter


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[RingReader]:
    """Of this process, which counts."""
    writer = RingWriter(tmp_path / "ring", rank=0, epoch=1)
    garbage.count(writer)
    yield RingReader(tmp_path / "ring")
    garbage.forget()


def told_s(ring: RingReader) -> float:
    return ring.read().garbage_s


def test_each_collection_of_all_objects_adds_to_what_the_ring_tells(ring: RingReader) -> None:
    assert told_s(ring) == 0.0
    gc.collect()
    once_s = told_s(ring)
    assert 0.0 < once_s < 60.0
    gc.collect()
    assert told_s(ring) > once_s


def test_collections_of_new_objects_are_not_counted(ring: RingReader) -> None:
    gc.collect(0)
    gc.collect(1)
    assert told_s(ring) == 0.0


def test_a_child_of_the_rank_counts_nothing_in_its_ring(ring: RingReader) -> None:
    gc.collect()
    once_s = told_s(ring)
    hooks._forget()  # what a forked child does first
    gc.collect()
    assert told_s(ring) == once_s


def test_another_attempts_ring_begins_anew_and_the_last_one_is_left(
    ring: RingReader, tmp_path: Path
) -> None:
    gc.collect()
    once_s = told_s(ring)
    garbage.count(RingWriter(tmp_path / "next", rank=0, epoch=2))
    gc.collect()
    assert told_s(ring) == once_s
    assert 0.0 < told_s(RingReader(tmp_path / "next")) < 60.0
    assert len(gc.callbacks) == len({id(each) for each in gc.callbacks})


def test_a_collection_that_had_begun_before_is_not_counted_from_when_the_machine_did(
    ring: RingReader,
) -> None:
    counts = next(each for each in gc.callbacks if isinstance(each, garbage._Collections))
    counts("stop", {"generation": garbage.OLDEST})
    assert told_s(ring) == 0.0
