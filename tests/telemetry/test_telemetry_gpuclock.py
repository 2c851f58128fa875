"""A GPU's clock against a made-up GPU, of which the test knows what it did when."""

import _thread
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import DEADLINE_S

from holdfast.telemetry import cuda, current
from holdfast.telemetry import gpu as gpu_module
from holdfast.telemetry.gpu import Gpu
from holdfast.telemetry.gpuclock import MOST, UNDER_WAY, GpuClock
from holdfast.telemetry.recorder import Recorder
from holdfast.telemetry.ring import RingReader, RingWriter
from holdfast.telemetry.trace.ring import SpanReader, SpanWriter

MS = 1_000_000


class MadeUp:
    """One stream, and the thread that enqueues. Times are nanoseconds."""

    def __init__(self) -> None:
        self.now = self.busy_until = 0
        self.captures = False
        self.marks = self.freed = 0

    def computes(self, takes_ns: int) -> None:
        self.busy_until = max(self.busy_until, self.now) + takes_ns

    def waits_until(self, at_ns: int) -> None:
        """For a peer that comes then."""
        self.busy_until = max(self.busy_until, self.now, at_ns)

    def goes_on(self, for_ns: int) -> None:
        self.now += for_ns

    def here(self) -> bool:
        return not self.captures

    def follow(self) -> None:
        pass

    def mark(self) -> int:
        assert not self.captures, "it would be part of the graph"
        self.marks += 1
        self.busy_until = max(self.busy_until, self.now)
        return self.busy_until

    def is_past(self, mark: int) -> bool:
        assert not self.captures, "to ask breaks the capture"
        return mark <= self.now

    def between_ns(self, first: int, second: int) -> int:
        return second - first

    def free(self, mark: int) -> None:
        self.freed += 1


@given(
    steps=st.lists(
        st.tuples(*[st.integers(0, 50 * MS)] * 4, st.booleans(), st.booleans()),
        min_size=2,
        max_size=20,
    )
)
def test_of_each_step_it_is_known_how_long_the_gpu_waited_and_paused(
    steps: list[tuple[int, int, int, int, bool, bool]],
) -> None:
    gpu, waited, paused, ends = MadeUp(), 0, 0, []
    enqueued = ended = 0
    clock = GpuClock(gpu, lambda: gpu.now)
    for step, (computes, peer, enqueues, pauses, by_ddp, saves) in enumerate(steps, 1):
        gpu.goes_on(enqueues)
        gpu.computes(computes)
        if by_ddp:
            clock.enqueued()
        begin = None if by_ddp else clock.waits()
        inner = clock.waits()
        came = max(gpu.busy_until, gpu.now)
        gpu.waits_until(came + peer)
        clock.waited(inner)
        clock.waited(begin)
        clock.optimizes()
        gpu.computes(MS)
        if saves:
            clock.pauses(True)
            clock.pauses(True)
            clock.waited(clock.waits())
            gpu.computes(pauses)
            clock.pauses(False)
            clock.pauses(False)
        clock.stepped(step, 7 * step)
        if ends:
            waited, paused = waited + peer, paused + pauses * saves
        if not ends:
            enqueued, ended = gpu.now, gpu.busy_until
        ends.append((enqueued + gpu.busy_until - ended, 7 * step, waited, paused))
    gpu.now = gpu.busy_until
    clock.stepped(len(steps) + 1, 0)
    assert clock.step == len(steps)
    assert clock.at_step_ns == ends[-1]
    assert gpu.marks - gpu.freed <= 2, "marks are used again, but for the newest two"


def test_what_the_gpu_has_not_done_yet_is_not_told() -> None:
    gpu = MadeUp()
    clock = GpuClock(gpu, lambda: gpu.now)
    for step in (1, 2, 3):
        gpu.computes(10 * MS)
        clock.stepped(step, 0)
    assert clock.step == 0
    gpu.goes_on(25 * MS)
    clock.stepped(4, 0)
    assert (clock.step, clock.at_step_ns[0]) == (2, 10 * MS), "it began as the first was enqueued"


def test_a_graph_that_is_captured_has_no_marks() -> None:
    gpu = MadeUp()
    clock = GpuClock(gpu, lambda: gpu.now)
    clock.stepped(1, 0)
    before = gpu.marks
    gpu.captures = True
    clock.enqueued()
    clock.waited(clock.waits())
    clock.optimizes()
    clock.pauses(True)
    clock.pauses(False)
    clock.stepped(2, 0)
    assert gpu.marks == before


def test_a_gpu_that_stands_still_is_given_no_more_marks() -> None:
    gpu = MadeUp()
    clock = GpuClock(gpu, lambda: gpu.now)
    gpu.computes(10**15)
    for step in range(1, 3 * MOST):
        clock.waited(clock.waits())
        clock.stepped(step, 0)
    assert gpu.marks <= 2 * MOST + 2


def test_an_error_of_cuda_ends_the_clock_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(MadeUp):
        def mark(self) -> Any:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(cuda, "is_there", lambda: True)
    monkeypatch.setattr(cuda, "CudaMarks", Broken)
    told: list[str] = []
    gpu = Gpu(lambda: told.append("failed"))
    for step in (1, 2, 3):
        gpu.waited(gpu.waits())
        gpu.enqueued()
        gpu.optimizes()
        gpu.pauses(True)
        gpu.stepped(step, 0)
    assert (told, gpu.step) == (["failed"], 0)


def test_a_thread_that_saves_beside_the_training_neither_waits_nor_pauses_for_it() -> None:
    """It enqueues on a stream of the same name, and waits on the CPU."""
    gpu, spans = MadeUp(), Spans()
    clock = GpuClock(gpu, lambda: gpu.now)

    def saves() -> None:
        clock.pauses(True)
        assert not clock.enqueued(spans.of("a save's"))
        clock.made(7)
        begin = clock.waits()
        gpu.computes(10 * MS)  # by the thread that trains
        clock.waited(begin)
        clock.pauses(False)

    def goes_backward() -> None:
        clock.enqueued(spans.of("backward"))
        begin = clock.waits()
        gpu.waits_until(gpu.busy_until + 3 * MS)
        clock.waited(begin)

    clock.stepped(1, 0)
    run_beside(saves)
    assert spans.told == []
    clock.enqueued(spans.of("mine"))
    run_beside(saves)
    begin = clock.waits()
    gpu.waits_until(gpu.busy_until + 2 * MS)
    clock.waited(begin)
    ended = threading.Event()
    _thread.start_new_thread(lambda: (goes_backward(), ended.set()), ())  # as one of autograd's
    assert ended.wait(DEADLINE_S)
    gpu.now = gpu.busy_until
    clock.stepped(2, 0)
    gpu.goes_on(MS)
    clock.stepped(3, 0)
    assert clock.at_step_ns[2:] == (5 * MS, 0)


def test_where_optimizers_step_in_autograds_threads_the_main_one_trains_as_well() -> None:
    gpu = MadeUp()
    clock = GpuClock(gpu, lambda: gpu.now)
    for step in (1, 2, 3):
        begin = clock.waits()
        gpu.waits_until(gpu.busy_until + 2 * MS)
        clock.waited(begin)
        clock.pauses(True)
        gpu.computes(3 * MS)
        clock.pauses(False)
        gpu.now = gpu.busy_until
        run_beside(lambda: clock.stepped(step, 0))  # noqa: B023 it is over by then
    assert clock.at_step_ns[2:] == (2 * MS, 3 * MS)


def run_beside(what: Callable[[], None]) -> None:
    thread = threading.Thread(target=what)
    thread.start()
    thread.join(DEADLINE_S)


def test_a_pause_that_began_before_the_clock_ends_none(gpu: MadeUp) -> None:
    clock = Gpu(lambda: None)
    clock.pauses(True)
    clock.stepped(1, 0)
    clock.pauses(False)
    begin = clock.waits()
    gpu.waits_until(4 * MS)
    clock.waited(begin)
    clock.pauses(True)
    gpu.computes(3 * MS)
    clock.pauses(False)
    gpu.now = gpu.busy_until
    clock.stepped(2, 0)
    gpu.goes_on(MS)
    clock.stepped(3, 0)
    assert clock.at_step_ns[2:] == (4 * MS, 3 * MS)


def test_what_is_called_torch_and_has_no_gpus_fails_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    told: list[str] = []
    gpu = Gpu(lambda: told.append("failed"))
    assert [gpu.stepped(step, 0) for step in (1, 2)] == [False, False]
    assert told == ["failed"]


Span = tuple[str, int, int, int]


class Spans:
    """What was told, by name."""

    def __init__(self) -> None:
        self.told: list[Span] = []

    def of(self, name: str) -> Any:
        def tell(began_ns: int, took_ns: int, waited_ns: int) -> None:
            began_ns = round(began_ns, -5)  # two clocks may come apart by some parts in 100,000
            self.told.append((name, began_ns, took_ns, waited_ns))

        return tell


def test_spans_are_told_as_the_gpu_ran_them_on_the_machines_clock() -> None:
    """A thread that is ahead by two steps, and has waited for its GPU once before."""
    gpu, spans = MadeUp(), Spans()
    gpu.goes_on(5_000 * MS)
    clock = GpuClock(gpu, lambda: gpu.now)
    gpu.computes(300 * MS)  # it is behind when it is first known
    clock.stepped(1, 0)
    gpu.now = gpu.busy_until
    begun = gpu.now
    for step in (2, 3):
        gpu.goes_on(MS)
        phase = clock.begins()
        gpu.computes(10 * MS)
        clock.ends(phase, spans.of("forward"))
        assert clock.enqueued(spans.of("reduce"))
        gpu.computes(20 * MS)  # beside it
        begin = clock.waits()
        gpu.waits_until(gpu.busy_until + 30 * MS)
        clock.waited(begin)
        assert clock.stepped(step, 0, spans.of("step"))
    gpu.now = gpu.busy_until
    clock.stepped(4, 0)
    at = begun + MS
    assert spans.told == [
        ("forward", at, 10 * MS, 0),
        ("reduce", at + 10 * MS, 50 * MS, 30 * MS),
        ("step", at - MS, 61 * MS, 30 * MS),
        ("forward", at + 60 * MS, 10 * MS, 0),
        ("reduce", at + 70 * MS, 50 * MS, 30 * MS),
        ("step", at + 60 * MS, 60 * MS, 30 * MS),
    ]


def test_who_waits_for_several_is_told_which_it_was_where_works_have_numbers() -> None:
    gpu, spans = MadeUp(), Spans()
    clock = GpuClock(gpu, lambda: gpu.now)
    clock.stepped(1, 0)
    for number in (7, 8, 9):
        clock.enqueued(spans.of(str(number)))
        clock.made(number)
    clock.enqueued(spans.of("without"))
    for key in (8, None, 9, 1):
        gpu.computes(MS)
        clock.waited(clock.waits(), key)
    gpu.now = gpu.busy_until
    clock.stepped(2, 0)
    clock.stepped(3, 0)
    assert [name for name, *_ in spans.told] == ["8", "7", "9", "without"]


def test_of_what_nobody_is_seen_to_wait_for_the_newest_alone_has_a_length() -> None:
    gpu, spans = MadeUp(), Spans()
    clock = GpuClock(gpu, lambda: gpu.now)
    clock.stepped(1, 0)
    for name in ("first", "second"):
        clock.enqueued(spans.of(name))
        gpu.goes_on(MS)
        gpu.computes(5 * MS)
    clock.optimizes()
    gpu.now = gpu.busy_until
    clock.stepped(2, 0)
    clock.stepped(3, 0)
    assert spans.told == [("first", 0, 0, 0), ("second", 6 * MS, 5 * MS, 5 * MS)]
    assert clock.at_step_ns[2] == 5 * MS


def test_where_one_of_two_was_waited_for_the_other_is_not_supposed_to_be() -> None:
    gpu = MadeUp()
    clock = GpuClock(gpu, lambda: gpu.now)
    clock.stepped(1, 0)
    clock.enqueued()
    clock.enqueued()
    gpu.computes(3 * MS)
    begin = clock.waits()
    gpu.waits_until(5 * MS)
    clock.waited(begin)
    gpu.computes(7 * MS)
    clock.optimizes()
    gpu.now = gpu.busy_until
    clock.stepped(2, 0)
    clock.stepped(3, 0)
    assert clock.at_step_ns[2] == 2 * MS


def test_a_script_that_goes_on_on_another_stream_is_followed() -> None:
    class Moves(MadeUp):
        stream = mine = 1

        def here(self) -> bool:
            return self.stream == self.mine

        def follow(self) -> None:
            self.mine = self.stream

    gpu = Moves()
    clock = GpuClock(gpu, lambda: gpu.now)
    for step in range(1, 6):
        gpu.stream = 2 if step > 2 else 1
        gpu.computes(MS)
        gpu.now = gpu.busy_until
        clock.stepped(step, 0)
    assert clock.step == 4, "the GPU is past all but the last"


def test_marks_of_collectives_that_nobody_waits_for_are_few() -> None:
    gpu, spans = MadeUp(), Spans()
    clock = GpuClock(gpu, lambda: gpu.now)
    clock.stepped(1, 0)
    for _ in range(3 * UNDER_WAY):
        clock.enqueued(spans.of("one"))
    assert gpu.marks - gpu.freed <= UNDER_WAY + 2
    assert len(spans.told) == 2 * UNDER_WAY


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    """What a process finds that uses a GPU; its thread's time is the GPU's own here."""
    made = MadeUp()
    monkeypatch.setattr(cuda, "is_there", lambda: True)
    monkeypatch.setattr(cuda, "CudaMarks", lambda: made)
    monkeypatch.setattr(gpu_module, "GpuClock", Timed)
    return made


class Timed(GpuClock):
    """By the made-up GPU's thread."""

    def __init__(self, marks: Any) -> None:
        super().__init__(marks, lambda: marks.now)


def test_a_ring_has_the_times_of_the_gpu_and_the_step_that_they_are_of(
    gpu: MadeUp, tmp_path: Path
) -> None:
    spans = SpanWriter(tmp_path / "spans", rank=0, epoch=1)
    recorder = Recorder(RingWriter(tmp_path / "ring", rank=0, epoch=1), spans)
    group = recorder.new_group([0, 1])
    assert group is not None
    group.followed = False
    for _ in range(5):
        gpu.goes_on(MS)
        group.enqueue(1, 0)
        begin = recorder.gpu.waits()
        gpu.waits_until(gpu.busy_until + 4 * MS)
        recorder.gpu.waited(begin)
        gpu.computes(6 * MS)
        recorder.optimizes()
        recorder.stepped()
    seen = RingReader(tmp_path / "ring").read()
    assert (seen.step, seen.gpu_step, seen.timed_step) == (5, 0, 5), "it has told of none"
    gpu.now = gpu.busy_until
    with recorder.pause("evaluates"):
        gpu.computes(30 * MS)
    recorder.stepped()
    seen = RingReader(tmp_path / "ring").read()
    assert (seen.step, seen.gpu_step, seen.timed_step) == (6, 5, 5)
    assert (seen.waited_s, seen.paused_s) == (pytest.approx(0.016), 0.0)
    gpu.now = gpu.busy_until
    recorder.stepped()
    seen = RingReader(tmp_path / "ring").read()
    assert (seen.timed_step, seen.paused_s) == (6, pytest.approx(0.03))
    told = SpanReader(tmp_path / "spans").read()
    collectives = [each for each in told if each.kind == "collective" and each.step > 1]
    assert [each.waited_ns for each in collectives] == [4 * MS] * 4
    assert [each.number for each in collectives] == [2, 3, 4, 5]
    assert [each.took_ns for each in told if each.kind == "step"][-1] == 30 * MS


def test_a_wait_of_a_stream_that_fails_is_over(
    gpu: MadeUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stream:
        def wait_event(self, event: Any) -> None:
            gpu.waits_until(event)
            if event < 0:
                raise RuntimeError("of another device")

    recorder = Recorder(RingWriter(tmp_path / "ring", rank=0, epoch=1))
    monkeypatch.setattr(current, "recorder", recorder)
    cuda.hook_streams(SimpleNamespace(Stream=Stream))
    monkeypatch.setattr(MadeUp, "is_mine", lambda self, stream: True, raising=False)
    recorder.stepped()
    recorder.gpu._apart = True
    with pytest.raises(RuntimeError, match="of another device"):
        Stream().wait_event(-1)
    Stream().wait_event(gpu.busy_until + 5 * MS)
    recorder.stepped()
    gpu.now = gpu.busy_until
    recorder.stepped()
    assert recorder.gpu.at_step_ns[2] == 5 * MS, "FSDP2's: the stream waits, and no work is seen"


def test_a_rank_without_a_gpu_is_not_timed_by_one_and_one_with_a_gpu_is_from_its_first_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = Gpu(lambda: None)
    monkeypatch.setattr(cuda, "is_there", lambda: False)
    gpu.stepped(1, 0)
    assert not gpu.is_timed
    monkeypatch.setattr(cuda, "is_there", lambda: True)
    monkeypatch.setattr(cuda, "CudaMarks", MadeUp)
    gpu.stepped(2, 0)
    assert gpu.is_timed
