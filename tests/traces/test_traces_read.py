"""A job's spans out of a run's folder, packed and not; as tables; as a trace for Perfetto."""

import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import made_spans
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_spans import STEPS, block_of, made, spans_of, write
from msgspec.structs import replace

from holdfast.traces import read, tables
from holdfast.traces.model import Span, longest
from holdfast.traces.packed import pack
from holdfast.traces.perfetto import trace
from holdfast.traces.segments import segments

COUNT = 4 * 4 * STEPS + 4
"""Spans of the made-up job: four a step and rank, and what each was at last."""


def test_all_is_found_in_the_order_in_which_it_began(tmp_path: Path) -> None:
    made(tmp_path)
    found = read.spans(tmp_path, "speech")
    assert len(found) == COUNT
    assert [span.start_s for span in found] == sorted(span.start_s for span in found)
    waits = [span for span in found if not span.ended]
    assert {(span.rank, span.name, span.took_s) for span in waits} == {
        *((rank, "all_reduce", 4.9) for rank in range(3)),
        (3, "stopped", 5.0),
    }


def test_a_time_some_ranks_and_a_limit_are_kept_to(tmp_path: Path) -> None:
    made(tmp_path)
    found = read.find(tmp_path, "speech", from_s=1.5, to_s=1.65, ranks=[1, 3])
    assert {span.rank for span in found.spans} == {1, 3}
    assert all(span.start_s <= 1.65 and span.start_s + span.took_s >= 1.5 for span in found.spans)
    assert found.clock_error_s == {"node-1": 0.0002, "node-2": 0.0002}
    assert not found.more
    few = read.find(tmp_path, "speech", limit=10)
    assert (len(few.spans), few.more, few.dropped) == (10, True, 6)
    assert few.spans == read.spans(tmp_path, "speech")[:10]
    last = read.find(tmp_path, "speech", limit=10, newest=True)
    assert (last.spans, last.more) == (read.spans(tmp_path, "speech")[-10:], True)


WORDS = st.builds(
    Span,
    rank=st.integers(0, 3),
    attempt=st.just(1),
    node=st.just("node-1"),
    kind=st.just("step"),
    start_s=st.integers(0, 9).map(float),
    took_s=st.integers(0, 4).map(float),
    ended=st.booleans(),
)
"""Few beginnings, and so many words on the same span, and many spans that begin together."""


@given(st.lists(WORDS, max_size=60), st.integers(1, 8), st.booleans(), st.integers(1, 7))
def test_the_first_or_last_of_all_are_the_same_whatever_was_let_go_of_meanwhile(
    words: list[Span], limit: int, newest: bool, together: int
) -> None:
    few = read._Few(limit, newest=newest)
    for at in range(0, len(words), together):
        few.add(words[at : at + together])
    whole = longest(words)
    assert few.told() == (whole[-limit:] if newest else whole[:limit])
    assert few.more is (len(whole) > limit)


@pytest.mark.parametrize("newest", [False, True])
def test_an_hour_of_many_ranks_is_not_in_memory_for_the_few_that_are_told(
    tmp_path: Path, newest: bool
) -> None:
    nodes, own = 40, [span for rank in range(8) for span in spans_of(rank)]
    for node in range(nodes):
        ranks = [replace(each, rank=8 * node + each.rank, node=f"n-{node}") for each in own]
        write(tmp_path, block_of(ranks))
    read.find(tmp_path, "speech", limit=1)  # what is loaded once
    tracemalloc.start()
    found = read.find(tmp_path, "speech", limit=100, newest=newest)
    most_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(found.spans), found.more, len(found.clock_error_s)) == (100, True, nodes)
    assert most_bytes < 1 << 20, "one block is a quarter of that, and all would be five times it"


def test_where_nothing_is_nothing_is_found(tmp_path: Path) -> None:
    assert read.spans(tmp_path, "speech") == []
    made(tmp_path, "other")
    assert read.spans(tmp_path, "speech") == []


def test_an_earlier_job_of_the_name_is_another(tmp_path: Path) -> None:
    made(tmp_path)
    write(tmp_path, block_of(spans_of(0, 1), submitted_s=90.0))
    assert len(read.spans(tmp_path, "speech")) == len(spans_of(0, 1)) - 1


def test_a_damaged_file_is_told_and_the_rest_is_found(tmp_path: Path) -> None:
    folder = made(tmp_path)
    segments(folder)[0].path.write_bytes(b"nothing")
    found = read.find(tmp_path, "speech")
    assert {span.node for span in found.spans} == {"node-2"}
    [said] = found.troubles
    assert said.startswith(str(segments(folder)[0].path))


# ---------------------------------------------------------------- packed


@pytest.fixture
def duck() -> Any:
    return pytest.importorskip("duckdb")


def test_what_is_packed_is_found_as_before(tmp_path: Path, duck: Any) -> None:
    folder = made(tmp_path)
    before = read.find(tmp_path, "speech")
    assert pack(folder).files == 0, "daemons may write to the newest"
    done = pack(folder, everything=True)
    assert (done.files, done.troubles) == (2, [])
    assert segments(folder) == []
    assert {path.parent.name for path in folder.glob("day=2026-09-21/*/*.parquet")} == {
        f"rank={rank}" for rank in range(4)
    }
    after = read.find(tmp_path, "speech")
    assert after.spans == before.spans
    last = read.find(tmp_path, "speech", limit=10, newest=True)
    assert (last.spans[-4:], last.more) == (before.spans[-4:], True)
    some = {"from_s": 1.2, "to_s": 1.3, "ranks": [2]}
    assert read.spans(tmp_path, "speech", **some) == [
        span
        for span in before.spans
        if span.rank == 2 and span.start_s <= 1.3 and span.start_s + span.took_s >= 1.2
    ]
    write(tmp_path, block_of(spans_of(0, 1), submitted_s=90.0))
    assert len(read.spans(tmp_path, "speech")) == len(spans_of(0, 1)) - 1, "a later job"


def test_a_parquet_file_that_is_none_is_told(tmp_path: Path, duck: Any) -> None:
    folder = made(tmp_path)
    pack(folder, everything=True)
    next(folder.glob("day=*/rank=2/*.parquet")).write_bytes(b"nothing")
    [said] = read.find(tmp_path, "speech").troubles
    assert "what was packed cannot be read" in said


def test_without_duckdb_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(tables.NotInstalled, match=r"pip install 'holdfast\[trace\]'"):
        pack(made(tmp_path))
    (tmp_path / "jobs/speech/traces/day=2026-09-21/rank=0").mkdir(parents=True)
    (tmp_path / "jobs/speech/traces/day=2026-09-21/rank=0/a.parquet").touch()
    [said] = read.find(tmp_path, "speech").troubles
    assert "pip install" in said


# ---------------------------------------------------------------- tables


def asked(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    with tables.tables([folder]) as made_tables:
        return made_tables.ask(sql)[1]


@pytest.mark.parametrize("packed", [False, True])
def test_views_tell_what_they_are_for(tmp_path: Path, duck: Any, packed: bool) -> None:
    folder = made(tmp_path)
    if packed:
        pack(folder, everything=True)
    assert asked(folder, "SELECT count(*) FROM spans") == [(COUNT,)]
    assert asked(
        folder, "SELECT rank FROM steps GROUP BY rank ORDER BY avg(own_s) DESC LIMIT 1"
    ) == [(3,)]
    late = "SELECT last_rank, last_node, count(*) FROM collectives WHERE ranks = 4 GROUP BY ALL"
    assert asked(folder, late) == [(3, "node-2", STEPS)]
    assert asked(folder, "SELECT round(avg(late_s), 3) FROM collectives WHERE ended") == [(0.02,)]
    assert asked(folder, "SELECT count(*), max(waited_s) FROM waits WHERE NOT ended") == [(3, 4.9)]
    assert asked(folder, "SELECT rank, name FROM incidents WHERE kind = 'pause'") == [
        (3, "stopped")
    ]


def test_a_question_cannot_write_nor_read_other_files(tmp_path: Path, duck: Any) -> None:
    folder, other = made(tmp_path), tmp_path / "secret.csv"
    other.write_text("a\n1\n")
    for sql in (f"FROM '{other}'", f"COPY spans TO '{tmp_path}/out.csv'", "SELECT nonsense"):
        with pytest.raises(tables.NoAnswer):
            asked(folder, sql)
    assert not (tmp_path / "out.csv").exists()


# ---------------------------------------------------------------- Perfetto


def test_perfettos_own_protos_read_the_trace(tmp_path: Path) -> None:
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    made(tmp_path)
    spans = read.spans(tmp_path, "speech")
    read_back = protos.Trace()
    read_back.ParseFromString(b"".join(trace(spans)))
    tracks = {
        packet.track_descriptor.uuid: packet.track_descriptor
        for packet in read_back.packet
        if packet.HasField("track_descriptor")
    }
    processes = [each for each in tracks.values() if each.HasField("process")]
    assert [each.process.process_name for each in processes] == [
        f"rank {rank} on node-{1 + rank // 2}" for rank in range(4)
    ]
    lanes = {uuid: each for uuid, each in tracks.items() if each.parent_uuid}
    assert all(each.parent_uuid in tracks for each in lanes.values())
    assert Counter(each.name for each in lanes.values()) == {
        "steps": 4,
        "phases": 4,
        "collectives": 4,
    }
    events = [
        (each.timestamp, each.track_event)
        for each in read_back.packet
        if each.HasField("track_event")
    ]
    begun = [event for _, event in events if event.type == event.TYPE_SLICE_BEGIN]
    ended = [event for _, event in events if event.type == event.TYPE_SLICE_END]
    assert len(begun) == len(ended) == len(spans)
    flows = Counter(flow for event in begun for flow in event.flow_ids)
    assert Counter(flows.values()) == {4: STEPS, 3: 1}, "arrows between all who shared a collective"
    unfinished = [
        event
        for event in begun
        if any(note.name == "unfinished" for note in event.debug_annotations)
    ]
    assert Counter(event.name for event in unfinished) == {"all_reduce": 3, "stopped": 1}
    _check_nesting(events)


def _check_nesting(events: list[tuple[int, Any]]) -> None:
    """On each track times never go back, and each end has its begin."""
    depth: Counter[int] = Counter()
    at: dict[int, int] = {}
    for time_ns, event in events:
        assert time_ns >= at.get(event.track_uuid, 0)
        at[event.track_uuid] = time_ns
        depth[event.track_uuid] += 1 if event.type == event.TYPE_SLICE_BEGIN else -1
        assert depth[event.track_uuid] >= 0
    assert not any(depth.values())


def test_what_overlaps_gets_a_track_beside() -> None:
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    from holdfast.traces.model import Span

    fields = {"rank": 0, "attempt": 1, "node": "n", "kind": "collective"}
    spans = [
        Span(number=number, start_s=start_s, took_s=took_s, **fields)  # type: ignore[arg-type]
        for number, (start_s, took_s) in enumerate([(0, 4), (1, 2), (1.5, 1), (2, 5), (4, 1)])
    ]
    read_back = protos.Trace()
    read_back.ParseFromString(b"".join(trace(spans)))
    of = {
        event.track_event.track_uuid for event in read_back.packet if event.HasField("track_event")
    }
    assert len(of) == 2
    _check_nesting(
        [
            (each.timestamp, each.track_event)
            for each in read_back.packet
            if each.HasField("track_event")
        ]
    )


def test_made_spans_are_what_the_tests_say() -> None:
    assert len(made_spans.spans_of(0)) == 4 * STEPS + 2


def test_a_packing_that_was_interrupted_is_finished_and_doubles_nothing(
    tmp_path: Path, duck: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path)
    before = read.spans(tmp_path, "speech")
    unlink, gone = Path.unlink, list[Path]()

    def killed(self: Path, missing_ok: bool = False) -> None:
        """Once one of them is gone."""
        if gone:
            raise KeyboardInterrupt
        gone.append(self)
        unlink(self)

    monkeypatch.setattr(Path, "unlink", killed)
    with pytest.raises(KeyboardInterrupt):
        pack(folder, everything=True)
    monkeypatch.setattr(Path, "unlink", unlink)
    assert len(segments(folder)) == 1
    pack(folder, everything=True)
    assert segments(folder) == []
    assert not list(folder.glob(".pack*"))
    assert read.spans(tmp_path, "speech") == before
    assert asked(folder, "SELECT count(*) FROM spans") == [(COUNT,)]
