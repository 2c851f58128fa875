"""A rank's spans: what the recorder and the hooks write, and what a reader makes of the file."""

import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import eventually

from holdfast.protocol.spans import KINDS
from holdfast.telemetry import schema as words
from holdfast.telemetry.gpu import Gpu
from holdfast.telemetry.recorder import MOST_PENDING, Recorder
from holdfast.telemetry.ring import RingError, RingReader, RingWriter
from holdfast.telemetry.trace import schema
from holdfast.telemetry.trace.ring import Raw, SpanReader, SpanWriter
from holdfast.telemetry.trace.tracer import Tracer

NUMBERS = st.integers(0, 2**40)
SPANS = st.lists(
    st.tuples(st.integers(0, len(KINDS) - 1), NUMBERS, NUMBERS, NUMBERS, st.integers(0, 2**32 - 1)),
    max_size=40,
)


@pytest.fixture
def made(tmp_path: Path) -> tuple[SpanWriter, SpanReader]:
    writer = SpanWriter(tmp_path / "job.e1.r3.spans", rank=3, epoch=1)
    return writer, SpanReader(tmp_path / "job.e1.r3.spans")


@given(rounds=st.lists(SPANS, max_size=6))
def test_what_is_written_is_read_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("ring") / "a.spans"
    writer = SpanWriter(path, rank=0, epoch=1)
    reader = SpanReader(path)
    for spans in rounds:
        for kind, *numbers in spans:
            writer.span(kind, writer.name("word"), *numbers)
        found = [
            (raw.kind, raw.began_ns, raw.took_ns, raw.waited_ns, raw.step) for raw in reader.read()
        ]
        assert found == [(KINDS[kind], *numbers) for kind, *numbers in spans]
    assert reader.dropped == 0
    reader.close()


def test_what_is_overwritten_before_it_is_read_is_counted(
    made: tuple[SpanWriter, SpanReader],
) -> None:
    writer, reader = made
    for number in range(schema.SLOTS + 7):
        writer.span(0, 0, number, 1, 0, 1)
    found = reader.read()
    assert [raw.began_ns for raw in found] == list(range(7, schema.SLOTS + 7))
    assert reader.dropped == 7


def test_one_that_is_being_written_is_waited_for_unless_its_writer_is_gone(
    made: tuple[SpanWriter, SpanReader],
) -> None:
    writer, reader = made
    for number in range(3):
        writer.span(0, 0, number, 1, 0, 1)
    at = schema.SPANS_AT + schema.SPAN.size
    whole = writer._words[at // 8]
    writer._words[at // 8] = 0
    assert [raw.began_ns for raw in reader.read()] == [0]
    assert reader.read() == []
    writer._words[at // 8] = whole
    assert [raw.began_ns for raw in reader.read()] == [1, 2]
    writer.span(0, 0, 3, 1, 0, 1)
    writer._words[(at + 2 * schema.SPAN.size) // 8] = 0
    assert reader.read(last=True) == []
    assert reader.dropped == 1


class Meanwhile:
    """A file of spans whose rank goes on while a part of it is copied."""

    def __init__(self, mapped: Any, happens: Callable[[], None]) -> None:
        self._mapped, self._happens = mapped, [happens]
        self.size = mapped.size

    def __getitem__(self, part: slice) -> bytes:
        data: bytes = self._mapped[part]
        while self._happens:
            self._happens.pop()()
        return data


def test_one_that_is_overwritten_while_it_is_copied_is_lost_and_not_told(
    made: tuple[SpanWriter, SpanReader],
) -> None:
    writer, reader = made
    writer.span(0, 0, 0, 1, 0, 1)

    def goes_round() -> None:
        for number in range(1, schema.SLOTS + 1):
            writer.span(0, 0, number, 1, 0, 1)

    reader._map = Meanwhile(reader._map, goes_round)  # type: ignore[assignment]
    assert reader.read() == []
    assert reader.dropped == 1
    assert [raw.began_ns for raw in reader.read()] == list(range(1, schema.SLOTS + 1))


def test_what_is_under_way_is_copied_again_where_it_changed_meanwhile(
    made: tuple[SpanWriter, SpanReader],
) -> None:
    writer, reader = made
    writer.opens(5, [(1, 0, 0, 1, 0, 0, 0)])
    later = partial(writer.opens, 6, [(2, 0, 0, 1, 0, 0, 0), (3, 0, 0, 1, 0, 0, 0)])
    reader._map = Meanwhile(reader._map, later)  # type: ignore[assignment]
    assert [raw.began_ns for raw in reader.opens()] == [2, 3]


def test_names_beyond_the_table_are_none(made: tuple[SpanWriter, SpanReader]) -> None:
    writer, reader = made
    for number in range(schema.NAME_SLOTS + 5):
        writer.span(1, writer.name(f"name {number}\n"), 0, 0, 0, 0)
    names = [raw.name for raw in reader.read()]
    assert names[0] == "name 0?"
    assert names[schema.NAME_SLOTS - 2] != ""
    assert names[schema.NAME_SLOTS - 1 :] == [""] * 6


@pytest.mark.parametrize(
    ("at", "data", "said"),
    [
        (0, b"NOTHING!", "it is no ring of spans"),
        (8, b"\x09\0\0\0", "spans of version 9, and this daemon reads 1"),
        (40, b"\x01\0\0\0", "1 slots and 128 names are not this version's"),
    ],
)
def test_a_file_that_is_something_else_is_told_in_a_sentence(
    tmp_path: Path, at: int, data: bytes, said: str
) -> None:
    path = tmp_path / "job.e1.r0.spans"
    SpanWriter(path, rank=0, epoch=1)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)
    with pytest.raises(RingError, match=f"job.e1.r0.spans: .*{said}"):
        SpanReader(path)


@pytest.mark.parametrize("size", [0, 10, 4096])
def test_a_file_that_is_cut_short_is_told_before_it_is_read(tmp_path: Path, size: int) -> None:
    path = tmp_path / "job.e1.r0.spans"
    SpanWriter(path, rank=0, epoch=1)
    reader = SpanReader(path)
    with path.open("r+b") as file:
        file.truncate(size)
    with pytest.raises(RingError):
        SpanReader(path)
    with pytest.raises(RingError, match="cut short"):
        reader.read()


# ---------------------------------------------------------------- what a recorder says


def recorded(folder: Path) -> tuple[Recorder, SpanReader]:
    spans = SpanWriter(folder / "r.spans", rank=0, epoch=1)
    recorder = Recorder(RingWriter(folder / "r.ring", rank=0, epoch=1), spans)
    return recorder, SpanReader(folder / "r.spans")


def test_phases_pauses_and_steps_are_spans_in_each_other(tmp_path: Path) -> None:
    recorder, reader = recorded(tmp_path)
    recorder.starts_at(6)
    with recorder.phase("forward"):
        pass
    with recorder.phase("mine"), recorder.pause("saves"):
        pass
    recorder.optimizes()
    recorder.stepped()
    found = {(raw.kind, raw.name): raw for raw in reader.read()}
    assert list(found) == [
        ("forward", "forward"),
        ("save", "saves"),
        ("phase", "mine"),
        ("optimizer", ""),
        ("step", ""),
    ]
    assert {raw.step for raw in found.values()} == {7}
    step, save, mine = found["step", ""], found["save", "saves"], found["phase", "mine"]
    assert mine.began_ns <= save.began_ns
    for inner in found.values():
        assert step.began_ns <= inner.began_ns
        assert inner.began_ns + inner.took_ns <= step.began_ns + step.took_ns


class Work:
    def __init__(self) -> None:
        self.done = False

    def is_completed(self) -> bool:
        return self.done


def test_a_collective_goes_from_its_enqueuing_to_its_end_and_shows_while_it_is_under_way(
    tmp_path: Path,
) -> None:
    recorder, reader = recorded(tmp_path)
    group, work = recorder.new_group([0, 1]), Work()
    assert group is not None
    group.enqueue(schema_kind("all_reduce"), 0)
    recorder.pending(work, group)
    before = recorder.waits()
    recorder._trace()
    open_now = {raw.kind: raw for raw in reader.opens()}
    assert open_now["collective"].name == "all_reduce"
    assert not open_now["collective"].ended
    work.done = True
    recorder.waited(before)
    recorder._trace()
    [span] = reader.read()
    assert (span.kind, span.name, span.number) == ("collective", "all_reduce", 1)
    assert span.group == group.head
    assert 0 < span.waited_ns <= span.took_ns
    assert [raw.kind for raw in reader.opens()] == ["step"]
    recorder.stop()
    assert reader.opens() == [], "a rank that ends in order leaves nothing under way"


def test_works_that_never_say_that_they_are_done_are_not_kept_for_ever(tmp_path: Path) -> None:
    recorder, _ = recorded(tmp_path)
    group, works = recorder.new_group([0, 1]), weakref.WeakSet[Work]()
    assert group is not None
    for _ in range(MOST_PENDING):
        recorder.pending(make(works), group)
    assert len(works) == MOST_PENDING
    assert "done" not in RingReader(tmp_path / "r.ring").read().partial
    for _ in range(3):
        recorder.pending(make(works), group)
    assert not works
    assert "done" in RingReader(tmp_path / "r.ring").read().partial


def make(works: "weakref.WeakSet[Work]") -> Work:
    work = Work()
    works.add(work)
    return work


def test_a_collective_has_not_waited_for_longer_than_it_took(
    made: tuple[SpanWriter, SpanReader],
) -> None:
    """Waits are counted elsewhere: one that began before it may end in it."""
    writer, reader = made
    clock = SimpleNamespace(waited_ns=0)
    tracer = Tracer(writer, clock, Gpu(lambda: None))  # type: ignore[arg-type]
    begun = tracer.enqueued(schema_kind("all_reduce"), 1)
    clock.waited_ns = 3_600_000_000_000
    tracer.done(7, begun)
    begun = tracer.enqueued(schema_kind("all_reduce"), 2)
    clock.waited_ns = 0
    tracer.done(7, begun)
    longer, backwards = reader.read()
    assert 0 < longer.waited_ns == longer.took_ns
    assert backwards.waited_ns == 0


def schema_kind(name: str) -> int:
    return words.KINDS.index(name)


def test_a_message_that_is_waited_for_at_once_is_a_span_and_another_a_moment(
    tmp_path: Path,
) -> None:
    recorder, reader = recorded(tmp_path)
    assert recorder.tracer is not None
    recorder.tracer.passes("sends to", 1)
    recorder.tracer.passes("receives from", 1)
    before = recorder.waits()
    recorder.waited(before)
    sent, received = reader.read()
    assert (sent.name, sent.took_ns) == ("sends to 1", 0)
    assert received.name == "receives from 1"
    assert 0 < received.waited_ns <= received.took_ns


SCRIPT = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(torch.ones(20, 4), batch_size=2):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
token = torch.ones(1)
dist.send(token, 1) if dist.get_rank() == 0 else dist.recv(token, 0)
dist.barrier()
print("done", flush=True)
import time
while True:
    time.sleep(0.1)
"""


@pytest.mark.torch
def test_an_unmodified_script_shows_steps_collectives_batches_and_messages(ranks: Any) -> None:
    running = ranks(SCRIPT, 2)
    eventually(lambda: running.there() and "done" in running.output(1), "the script is done")
    spans: list[list[Raw]] = []
    for rank in range(2):
        reader = SpanReader(running.rings / f"job.e1.r{rank}.spans")
        found: list[Raw] = []
        come = partial(_with_barrier, reader, found)
        eventually(come, "the barrier is seen to be done")
        spans.append(found)
        kinds = [raw.kind for raw in found]
        assert kinds.count("step") == kinds.count("optimizer") == 10
        assert sum(raw.kind == "data" and not raw.name for raw in found) >= 10
        assert "p2p" in kinds
        assert all(raw.took_ns >= raw.waited_ns >= 0 for raw in found)
    both = [{(raw.group, raw.number) for raw in each if raw.kind == "collective"} for each in spans]
    assert both[0] == both[1]
    assert len(both[0]) >= 11


def _with_barrier(reader: SpanReader, found: list[Raw]) -> bool:
    """Whether it has come; the reader has each span once."""
    found += reader.read()
    return any(raw.name == "barrier" for raw in found)
