"""A node's spans: clocks, which are kept, where they go, and what no trace may ever do."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st
from made_spans import block_of, spans_of
from tests.daemon.conftest import FakeDriver
from waiting import eventually, eventually_async

from holdfast.daemon.loop import Daemon
from holdfast.daemon.settings import Settings, read
from holdfast.daemon.tracing import rank as of_rank
from holdfast.daemon.tracing import writer
from holdfast.daemon.tracing.clock import Clocks
from holdfast.daemon.tracing.rank import RankSpans
from holdfast.daemon.tracing.sampler import Traces
from holdfast.daemon.tracing.thinning import BURST_BYTES, FALLEN, GUESS_BYTES, Purse
from holdfast.kit.clock import SystemClock
from holdfast.protocol.messages import Traced, WatchOrder
from holdfast.protocol.nodeenv import BadSettings
from holdfast.protocol.outputs import Output
from holdfast.protocol.paths import NodePaths, span_ring
from holdfast.protocol.spans import KINDS
from holdfast.telemetry.trace.ring import SpanWriter
from holdfast.traces import read as reading
from holdfast.traces.segments import Reading, segments
from holdfast.traces.sinks import Place

STEP = KINDS.index("step")

# ---------------------------------------------------------------- clocks

TRIPS = st.tuples(st.floats(0, 0.5), st.floats(0, 0.5), st.floats(0, 0.5))


@given(st.floats(-1e6, 1e6), st.lists(TRIPS, min_size=1, max_size=80))
def test_the_offset_is_never_further_off_than_it_says(
    ahead_s: float, trips: list[tuple[float, float, float]]
) -> None:
    clocks, now_s = Clocks(), 2e6
    for there_s, thinks_s, back_s in trips:
        sent_s = now_s
        came_s = sent_s + there_s + ahead_s
        now_s = sent_s + there_s + thinks_s + back_s
        clocks.heard(sent_s, came_s, came_s + thinks_s, now_s)
    offset = clocks.offset(now_s)
    assert offset is not None
    assert abs(offset.ahead_s - ahead_s) <= offset.error_s + 1e-6
    last = trips[-64:]
    assert offset.error_s <= min((out + back) / 2 for out, _, back in last) + 0.02


@pytest.mark.parametrize(
    "times",
    [
        pytest.param((0.0, 0.0, 0.0, 5.0), id="a driver that tells none"),
        pytest.param((5.0, 9.0, 9.0, 4.0), id="ours went back"),
        pytest.param((1.0, 9.0, 8.0, 2.0), id="the driver's went back"),
        pytest.param((1.0, 5.0, 9.0, 2.0), id="it thought longer than we waited"),
    ],
)
def test_a_clock_that_jumped_tells_nothing(times: tuple[float, float, float, float]) -> None:
    clocks = Clocks()
    clocks.heard(*times)
    assert clocks.offset(10.0) is None


# ---------------------------------------------------------------- which are kept


@tried(max_examples=30)
@given(
    st.floats(0.005, 5.0),
    st.integers(2, 400),
    st.floats(4, 40),
    st.integers(20, 120),
)
def test_what_is_sampled_costs_no_more_than_its_budget(
    step_s: float, spans_a_step: int, octets: float, minutes: int
) -> None:
    purse, paid, kept, now_s = Purse(0.0), 0.0, 0, 0.0
    for step in range(1, min(20_000, int(60 * minutes / step_s))):
        now_s = step * step_s
        purse.fill(now_s)
        kept += sum(purse.takes(step, whole_step=False) for _ in range(spans_a_step))
        if kept and (step % max(1, round(30 / step_s)) == 0 or kept > 200):
            paid += kept * octets
            purse.pay(kept * octets, kept)
            kept = 0
    assert paid <= BURST_BYTES + 37.5 * now_s + (200 + spans_a_step) * octets


@pytest.mark.parametrize("step_s", [0.02, 0.2, 2.0])
def test_after_a_burst_steps_are_kept_again_and_most_of_the_budget_is_used(step_s: float) -> None:
    """Blocks are as the sampler makes them: one a second at first, later each thirty seconds."""
    purse, paid, waiting, wrote_s, steps, now_s = Purse(0.0), 0.0, 0, 0.0, [0.0], 0.0
    for step in range(1, int(3600 / step_s)):
        now_s = step * step_s
        purse.fill(now_s)
        waiting += sum(purse.takes(step, whole_step=False) for _ in range(30))
        if purse.takes(step, whole_step=True):
            steps, waiting = [*steps, now_s], waiting + 1
        if waiting and now_s - wrote_s >= min(30.0, max(1.0, now_s / 10)):
            paid += waiting * 8.0
            purse.pay(waiting * 8.0, waiting)
            waiting, wrote_s = 0, now_s
    assert paid > 0.4 * (BURST_BYTES + 37.5 * now_s)
    assert max(after - before for before, after in itertools.pairwise(steps)) < 120.0


def test_a_purse_thins_once_it_is_half_empty_and_then_by_a_share_of_the_most_it_held() -> None:
    purse, changed_at = Purse(0.0), list[float]()
    left = float(BURST_BYTES)
    while len(changed_at) < 3:
        before = purse.every
        assert purse.takes(0, whole_step=False)
        left -= GUESS_BYTES
        if purse.every != before:
            assert purse.every == 2 * before
            changed_at.append(left)
    dues = BURST_BYTES / 2, *(FALLEN * at for at in changed_at[:-1])
    for at, due in zip(changed_at, dues, strict=True):
        assert due - GUESS_BYTES <= at < due


def test_steps_that_are_kept_are_the_same_on_ranks_that_keep_different_shares() -> None:
    few, many = Purse(0.0), Purse(0.0)
    few.every, many.every = 64, 8
    kept = [{n for n in range(1, 999) if purse.takes(n, whole_step=False)} for purse in (few, many)]
    assert kept[0] < kept[1]
    whole = {n for n in range(1, 999) if few.takes(n, whole_step=True)}
    assert kept[0] < whole


def test_an_offset_is_less_sure_the_longer_it_was_heard_ago() -> None:
    clocks = Clocks()
    clocks.heard(1.0, 11.0, 11.0, 1.002)
    fresh, aged = clocks.offset(1.002), clocks.offset(1_001.002)
    assert fresh is not None
    assert aged is not None
    assert aged.error_s - fresh.error_s == pytest.approx(0.1)
    clocks.heard(1_001.0, 1_011.0, 1_011.0, 1_001.1)  # less sure then, and surer than the old one
    newer = clocks.offset(1_001.1)
    assert newer is not None
    assert newer.error_s == pytest.approx(0.05)


# ---------------------------------------------------------------- one rank


@pytest.fixture
def ring(tmp_path: Path) -> tuple[SpanWriter, RankSpans]:
    made = SpanWriter(tmp_path / "job.e1.r0.spans", rank=0, epoch=1)
    made.opens(1, [])
    rank = RankSpans(tmp_path / "job.e1.r0.spans", output(tmp_path, 0), 0)
    return made, rank


def output(folder: Path, rank: int, attempt: int = 1) -> Output:
    traces = str(folder / "run" / "jobs" / "job" / "traces")
    return Output(
        job="job", epoch=1, rank=rank, folder="", began={}, attempt=attempt, traces=traces
    )


def step(made: SpanWriter, number: int, at_ns: int, took_ns: int = 1_000_000) -> None:
    made.span(STEP, 0, at_ns - took_ns, took_ns, 0, number)
    made.span(STEP + 1, 0, at_ns - took_ns, took_ns // 2, 0, number)


def test_all_is_kept_as_it_begins_then_some_and_all_again_before_a_fault(
    ring: tuple[SpanWriter, RankSpans],
) -> None:
    made, rank = ring
    window, tick = of_rank.WINDOW_NS, 100_000_000
    rank.purse.every = 32
    for number in range(1, 290):  # a full purse has not raised the share yet
        now_ns = number * tick
        made.opens(now_ns, [])
        step(made, number, now_ns)
        rank.look(now_ns)
    beginning = {raw.step for raw in rank.due(whole=True)}
    assert beginning == set(range(1, window // tick))
    sampled = rank.due(whole=False)
    assert {raw.step % 2 for raw in sampled if raw.kind == "step"} == {0}
    assert {raw.step % 32 for raw in sampled if raw.kind == "forward"} == {0}
    rank.open_window(289 * tick)
    last = {raw.step for raw in rank.due(whole=True) if raw.kind == "forward"}
    assert last | {raw.step for raw in sampled} >= set(range(290 - window // tick, 290))
    assert min(last) >= 289 - window // tick


def test_what_is_under_way_for_long_is_told_while_it_grows(
    ring: tuple[SpanWriter, RankSpans],
) -> None:
    made, rank = ring
    began_ns, ages = 100_000_000, []
    for now_ns in range(0, 30_000_000_000, 100_000_000):
        made.opens(now_ns + 1, [(began_ns, 0, 7, 1, 3, KINDS.index("collective"), 0)])
        rank.look(now_ns)
        ages += [raw.took_ns / 1e9 for raw in rank.due(whole=True) if not raw.ended]
    assert ages[0] == pytest.approx(1.0, abs=0.11)
    assert len(ages) < 12, "the longer it takes the more seldom"
    assert all(after >= 1.5 * before for before, after in itertools.pairwise(ages))


def test_what_is_under_way_has_not_waited_for_longer_than_it_lasts(
    ring: tuple[SpanWriter, RankSpans],
) -> None:
    """A wait that was counted by another clock, or began before it."""
    made, rank = ring
    now_ns = 5_000_000_000
    made.opens(now_ns, [(now_ns // 2, now_ns, 7, 1, 3, KINDS.index("collective"), 0)])
    rank.look(now_ns)
    [raw] = rank.due(whole=True)
    assert (raw.took_ns, raw.waited_ns) == (now_ns // 2, now_ns // 2)


def test_a_rank_that_had_no_pulse_yet_is_not_told_to_be_silent_since_the_machine_began(
    tmp_path: Path,
) -> None:
    SpanWriter(tmp_path / "job.e1.r0.spans", rank=0, epoch=1)
    now_ns = 3_600_000_000_000
    rank = RankSpans(tmp_path / "job.e1.r0.spans", output(tmp_path, 0), now_ns)
    rank.look(now_ns + 100_000_000)
    assert rank.due(whole=True) == []


def test_a_process_that_was_stopped_is_told_and_one_that_is_gone_is_told_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        monkeypatch.setattr(os, "getpid", lambda: child.pid)
        made = SpanWriter(tmp_path / "job.e1.r0.spans", rank=0, epoch=1)
        monkeypatch.undo()
        rank = RankSpans(tmp_path / "job.e1.r0.spans", output(tmp_path, 0), 0)
        made.opens(1_000, [(500, 0, 0, 9, 0, STEP, 0)])
        child.send_signal(signal.SIGSTOP)
        eventually(lambda: _told_after(rank, 3_000_000_000, "stopped"), "it is seen to be stopped")
        rank.look(4_000_000_000)
        assert rank.due(whole=True) == [], "not yet again"
        child.kill()
        child.wait()
        rank.look(5_000_000_000)
        assert rank.gone
        [last] = [raw for raw in rank.due(whole=True) if raw.kind == "step"]
        assert (last.step, last.ended) == (9, False)
        assert last.took_ns == 4_000_000_000 - 500, "until it was seen alive for the last time"
    finally:
        child.kill()
        child.wait()
        assert child.stdin is not None
        child.stdin.close()


def _told_after(rank: RankSpans, now_ns: int, name: str) -> bool:
    rank.look(now_ns)
    told = rank.due(whole=True)
    return any(raw.name == name and not raw.ended for raw in told)


# ---------------------------------------------------------------- a node


@pytest.fixture
def node(tmp_path: Path) -> NodePaths:
    paths = NodePaths(scratch=tmp_path / "scratch", memory=tmp_path / "memory")
    paths.rings.mkdir(parents=True)
    paths.outputs.mkdir()
    return paths


Made = Callable[[str], Traces]


@pytest.fixture
def traces_to(node: NodePaths) -> Iterator[Made]:
    opened: list[Traces] = []

    def make(url: str) -> Traces:
        made = Traces(SystemClock(), "node-1", node, url, "")
        now_s = SystemClock().monotonic_s()
        made.clocks.heard(now_s - 0.001, now_s + 100.0, now_s + 100.0, now_s)
        made.follow([Traced(job="job", submitted_s=now_s + 90.0)])
        made.look()
        opened.append(made)
        return made

    yield make
    for each in opened:
        each.close()


def seat(node: NodePaths, folder: Path, rank: int) -> SpanWriter:
    """As the executor and the rank make their files."""
    said = msgspec.json.encode(output(folder, rank))
    node.output("job", 1, rank).write_bytes(said)
    made = SpanWriter(span_ring(node.ring("job", 1, rank)), rank=rank, epoch=1)
    made.opens(time.monotonic_ns(), [])
    return made


def test_spans_of_all_ranks_come_into_the_runs_folder_on_the_drivers_clock(
    node: NodePaths, traces_to: Made, tmp_path: Path
) -> None:
    traces, now_ns = traces_to(""), int(SystemClock().monotonic_s() * 1e9)
    for rank in range(3):
        step(seat(node, tmp_path, rank), 1, now_ns)
    eventually(lambda: _found(traces, tmp_path), "they are kept")
    found = reading.find(tmp_path / "run", "job")
    assert {span.rank for span in found.spans} == {0, 1, 2}
    assert all(span.start_s == pytest.approx(10.0, abs=5.0) for span in found.spans)
    assert 0 < found.clock_error_s["node-1"] < 0.01
    assert traces.unreadable == ()


def _found(traces: Traces, folder: Path, spans: int = 6) -> bool:
    traces.look()
    return len(reading.spans(folder / "run", "job")) >= spans


def test_the_last_seconds_are_whole_though_a_daemon_ends_before_its_ranks(
    node: NodePaths, traces_to: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_rank, "WINDOW_NS", 0)  # as it begins
    traces, made = traces_to(""), seat(node, tmp_path, 0)
    eventually(lambda: traces.look() or traces._ranks, "it is seen")
    (rank,) = traces._ranks.values()
    rank.purse.every = 1 << 20
    monkeypatch.undo()
    begun_ns = time.monotonic_ns()
    for number in range(1, 9):
        step(made, number, begun_ns + number * 1_000_000)
    traces.look()
    traces.close()
    kept = [each.step for each in reading.spans(tmp_path / "run", "job") if each.kind == "step"]
    assert kept == list(range(1, 9))


def test_a_daemon_that_begins_anew_tells_nothing_twice(
    node: NodePaths, traces_to: Made, tmp_path: Path
) -> None:
    now_ns = time.monotonic_ns()
    made = seat(node, tmp_path, 0)
    step(made, 1, now_ns)
    traces = traces_to("")
    traces.look()
    step(made, 2, now_ns)
    eventually(lambda: _found(traces, tmp_path, 2), "what comes is kept")
    assert {span.step for span in reading.spans(tmp_path / "run", "job")} == {2}


def test_a_ring_of_another_version_is_told_and_the_others_are_kept(
    node: NodePaths, traces_to: Made, tmp_path: Path
) -> None:
    traces, now_ns = traces_to(""), int(SystemClock().monotonic_s() * 1e9)
    step(seat(node, tmp_path, 0), 1, now_ns)
    seat(node, tmp_path, 1)
    path = span_ring(node.ring("job", 1, 1))
    with path.open("r+b") as file:
        file.seek(8)
        file.write(b"\x07")
    eventually(lambda: _found(traces, tmp_path, 2), "the other's are kept")
    [said] = traces.unreadable
    assert "job.e1.r1.spans: spans of version 7" in said


def test_a_ring_that_is_cut_short_is_let_go_of(
    node: NodePaths, traces_to: Made, tmp_path: Path
) -> None:
    traces = traces_to("")
    step(seat(node, tmp_path, 0), 1, time.monotonic_ns())
    eventually(lambda: _found(traces, tmp_path, 2), "it is read")
    os.truncate(span_ring(node.ring("job", 1, 0)), 100)
    eventually(lambda: traces.look() or traces.unreadable, "it is told")
    assert "cut short" in traces.unreadable[0]


def test_where_nothing_can_be_written_spans_are_counted_and_told_once(
    node: NodePaths, traces_to: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "AGAIN_S", 0.0)
    (tmp_path / "run").write_text("a file where a folder should be")
    traces, now_ns = traces_to(""), int(SystemClock().monotonic_s() * 1e9)
    step(seat(node, tmp_path, 0), 1, now_ns)
    eventually(lambda: traces.look() or traces.unreadable, "it is told")
    [said] = traces.unreadable
    assert said.startswith("traces are lost, 2 spans so far: ")
    (tmp_path / "run").unlink()
    made = SpanWriter(span_ring(node.ring("job", 1, 7)), rank=7, epoch=1)
    node.output("job", 1, 7).write_bytes(msgspec.json.encode(output(tmp_path, 7)))
    step(made, 1, now_ns)
    eventually(lambda: _found(traces, tmp_path, 2), "later ones are kept again")
    eventually(lambda: traces.unreadable == (), "all is well again")
    step(made, 2, now_ns + 1_000_000)
    eventually(lambda: _found(traces, tmp_path, 4), "and more")
    assert reading.find(tmp_path / "run", "job").dropped == 2, "told once"


def test_a_sink_that_never_answers_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stuck = threading.Event()

    class Stuck:
        named = "stuck"

        def put(self, place: Place, data: bytes) -> None:
            stuck.wait(60)

    monkeypatch.setattr(writer, "open_sink", lambda *_: Stuck())
    made = writer.Writer("", "", lambda *_: None)
    place = Place(tmp_path, "job", 1, "n", 0.0)
    block = block_of(spans_of(0, 1))
    for _ in range(writer.WAITING_BLOCKS + 5):
        made.put(place, block)
    assert made.lost >= 3 * (len(block.spans) + block.dropped)
    stuck.set()
    made.close()


def test_nothing_is_kept_where_it_is_off(node: NodePaths, traces_to: Made, tmp_path: Path) -> None:
    traces = traces_to("off")
    step(seat(node, tmp_path, 0), 1, int(SystemClock().monotonic_s() * 1e9))
    traces.look()
    traces.close()
    assert not (tmp_path / "run").exists()


def test_a_place_that_is_none_is_refused_as_the_daemon_starts(settings: Settings) -> None:
    environment = {
        "HOLDFAST_NODE": "node-1",
        "HOLDFAST_DRIVER_URL": settings.driver_urls[0],
        "HOLDFAST_NODE_TOKEN_FILE": str(settings.token_file),
        "HOLDFAST_SCRATCH": str(settings.paths.scratch),
        "HOLDFAST_MEMORY": str(settings.paths.memory),
    }
    assert read(environment).traces == ""
    assert read({**environment, "HOLDFAST_TRACES": "redis://r:6379"}).traces == "redis://r:6379"
    with pytest.raises(BadSettings, match="HOLDFAST_TRACES: 'kafka://x' is no place for traces: "):
        read({**environment, "HOLDFAST_TRACES": "kafka://x"})


# ---------------------------------------------------------------- the whole daemon


async def test_a_daemon_keeps_what_its_driver_tells_it_to_and_learns_the_clock(
    daemon: Daemon, settings: Settings, driver: FakeDriver, tmp_path: Path
) -> None:
    settings.paths.outputs.mkdir(parents=True, exist_ok=True)
    now_s = SystemClock().monotonic_s()
    made = seat(settings.paths, tmp_path, 0)
    await eventually_async(lambda: driver.beats, "it speaks")
    order = WatchOrder(
        heartbeat_period_s=0.1, number=1, traced=(Traced(job="job", submitted_s=now_s),)
    )
    await driver.say(order)
    step(made, 1, int(now_s * 1e9))
    folder = tmp_path / "run" / "jobs" / "job" / "traces"
    await eventually_async(lambda: segments(folder), "it is kept")
    [block] = Reading().blocks(segments(folder)[0].path)
    assert block.job == "job"
    assert block.spans[0].start_s == pytest.approx(0.0, abs=1.0)
    assert driver.beats[-1].sent_s > 0
