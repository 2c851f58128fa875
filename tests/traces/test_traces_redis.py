"""Spans through a real Redis: kept, bounded, collected; one that is away, full, or a stranger's."""

from collections.abc import Iterator
from pathlib import Path

import made_spans
import pytest
from made_spans import block_of, spans_of
from msgspec.structs import replace
from redis_server import redis_server
from waiting import eventually

from holdfast.daemon.tracing import writer
from holdfast.daemon.tracing.writer import Writer
from holdfast.lab.redis import Redis
from holdfast.traces import read
from holdfast.traces.block import encode
from holdfast.traces.collect import Collector
from holdfast.traces.sinks import Away, Place, amiss, open_sink
from holdfast.traces.sinks import redis as of_redis
from holdfast.traces.sinks.redis import RedisSink, key_of, named

PLACE = Place(Path("/nowhere"), "speech", 2, "node-1", 60.0)


@pytest.fixture(scope="module")
def started() -> Iterator[Redis]:
    with redis_server() as server:
        yield server


@pytest.fixture
def sink(started: Redis) -> Iterator[RedisSink]:
    made = RedisSink(started.url)
    made._client.flushall()
    yield made
    made.close()


def test_blocks_go_through_a_stream_into_the_runs_folder_and_leave_it(
    sink: RedisSink, tmp_path: Path
) -> None:
    for rank in range(3):
        sink.put(PLACE, encode(block_of(spans_of(rank))))
    assert sink.streams() == {key_of("speech", 2): 3}
    collector = Collector(sink, tmp_path)
    assert collector.collect("other") == 0
    assert collector.collect() == 3
    assert {span.rank for span in read.spans(tmp_path, "speech")} == {0, 1, 2}
    assert sink.streams() == {}, "what is in a file is in no stream"


def test_what_is_collected_twice_is_told_once(sink: RedisSink, tmp_path: Path) -> None:
    for _ in range(2):
        sink.put(PLACE, encode(block_of(spans_of(0))))
    Collector(sink, tmp_path).collect()
    made_spans.write(tmp_path / "other", block_of(spans_of(0)))
    assert read.spans(tmp_path, "speech") == read.spans(tmp_path / "other", "speech")


def test_a_stream_that_nobody_collects_is_bounded(
    sink: RedisSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_redis, "MOST_BLOCKS", 100)
    for _ in range(1_000):
        sink.put(PLACE, b"x")
    assert sink.streams()[key_of("speech", 2)] <= 300, "XTRIM is by whole nodes of about a hundred"


def test_what_a_stranger_put_there_is_left_out_and_told(sink: RedisSink, tmp_path: Path) -> None:
    sink.put(PLACE, b"nothing")
    block = block_of(spans_of(0))
    sink.put(PLACE, encode(replace(block, node="../../node-1")))
    sink.put(PLACE._replace(job="../../speech"), encode(block))
    collector = Collector(sink, tmp_path)
    assert collector.collect() == 2
    assert [said.partition(": ")[2] for said in collector.troubles] == [
        "there is no block of spans; it is left out.",
        "'../../node-1' is no name of a node; it is left out.",
    ]
    assert not list(tmp_path.rglob("*.spans"))


def test_one_that_is_away_costs_spans_and_says_so_once_until_it_is_back(
    started: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "AGAIN_S", 0.0)
    kept: list[int] = []
    made = Writer(started.url, "", lambda place, block, octets: kept.append(octets))
    block = block_of(spans_of(0, 1))
    made.put(PLACE, block)
    eventually(lambda: len(kept) == 1, "it is kept")
    started.stop()
    made.put(PLACE, block)
    said = eventually(lambda: made.away, "it is told")
    lost = len(block.spans) + block.dropped
    assert said.startswith(f"traces are lost, {lost} spans so far: {named(started.url)}: ")
    started.start()
    made.put(PLACE, block)
    eventually(lambda: len(kept) == 2, "kept again")
    assert made.away == ""
    made.close()


def test_one_that_is_full_costs_spans(sink: RedisSink) -> None:
    sink._client.config_set("maxmemory", "1")
    try:
        with pytest.raises(Away, match="maxmemory"):
            sink.put(PLACE, b"x")
    finally:
        sink._client.config_set("maxmemory", "0")


def test_who_is_to_it_is_told_to_nobody() -> None:
    secret = "redis://me:secret@127.0.0.1:1/0"
    with pytest.raises(Away) as away:
        open_sink(secret).put(PLACE, b"x")
    assert str(away.value).startswith("redis://127.0.0.1:1: ")
    assert "secret" not in str(away.value)


@pytest.mark.parametrize("url", ["", "off", "redis://a:1", "rediss://a:1", "unix:///a/b"])
def test_places_for_traces(url: str) -> None:
    assert amiss(url) == ""


@pytest.mark.parametrize("url", ["file:///a", "http://a", "yes"])
def test_what_is_no_place_is_told_with_the_fix(url: str) -> None:
    assert amiss(url).endswith("give redis://HOST:PORT, off, or nothing for files.")
