"""Blocks of spans, and files of them: whole, torn, damaged, of another version, being written."""

import errno
import os
import struct
from pathlib import Path

import made_spans
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.protocol.spans import KINDS
from holdfast.traces.block import HEAD, Block, NoBlock, decode, encode
from holdfast.traces.model import Span, longest
from holdfast.traces.segments import HOUR_S, Reading, segments
from holdfast.traces.sinks import Away, Place
from holdfast.traces.sinks.files import KEPT_S, FileSink, sweep

SPANS = st.builds(
    Span,
    rank=st.integers(0, 20_000),
    attempt=st.integers(1, 99),
    node=st.just("node-1"),
    kind=st.sampled_from(KINDS),
    name=st.text(max_size=20),
    group=st.integers(0, 2**64 - 1),
    step=st.integers(0, 2**32 - 1),
    number=st.integers(0, 2**32 - 1),
    start_s=st.integers(0, 10**13).map(lambda us: us / 1e6),
    took_s=st.integers(0, 10**10).map(lambda us: us / 1e6),
    waited_s=st.integers(0, 10**10).map(lambda us: us / 1e6),
    ended=st.booleans(),
)


@given(st.lists(SPANS, max_size=30))
def test_a_block_is_decoded_as_it_was(spans: list[Span]) -> None:
    block = made_spans.block_of(spans)
    assert decode(encode(block)) == block


@given(st.binary(max_size=200), st.integers(0, 300), st.integers(0, 255))
def test_whatever_is_no_block_is_said_to_be_none(noise: bytes, at: int, octet: int) -> None:
    with pytest.raises(NoBlock):
        decode(noise)
    data = bytearray(encode(made_spans.block_of(made_spans.spans_of(0, 2))))
    at = HEAD.size + at % (len(data) - HEAD.size)
    if data[at] != octet:
        data[at] = octet
        with pytest.raises(NoBlock, match="torn or damaged"):
            decode(bytes(data))


def test_a_segment_is_read_up_to_what_is_being_written(tmp_path: Path) -> None:
    folder = made_spans.made(tmp_path)
    [first, _] = segments(folder)
    whole = first.path.read_bytes()
    count = len(made_spans.spans_of(0)) * 2
    for left in (0, 3, HEAD.size, len(whole) - 1):
        first.path.write_bytes(whole + whole[:left])
        reading = Reading()
        [block] = reading.blocks(first.path)
        assert len(block.spans) == count
        assert reading.troubles == []


def test_a_torn_block_costs_itself_and_is_told_once(tmp_path: Path) -> None:
    folder = made_spans.made(tmp_path)
    [first, _] = segments(folder)
    whole = first.path.read_bytes()
    first.path.write_bytes(whole + whole[:100] + whole + whole[:50] + whole)
    reading = Reading()
    assert len(list(reading.blocks(first.path))) == 3
    [said] = reading.troubles
    assert f"octet {len(whole):,}" in said
    assert "torn or damaged" in said


def test_a_torn_block_that_says_it_goes_beyond_the_end_does_not_hide_what_follows(
    tmp_path: Path,
) -> None:
    """A larger one, whose writer was killed, before a smaller one of the next daemon."""
    folder = made_spans.made(tmp_path)
    [first, _] = segments(folder)
    large = first.path.read_bytes()
    small = encode(made_spans.block_of(made_spans.spans_of(0, 1)))
    assert len(large) > 100 + len(small)
    for torn in (large[:100], large[:4], b"HF", b""):
        first.path.write_bytes(torn + small)
        reading = Reading()
        [block] = reading.blocks(first.path)
        assert len(block.spans) == len(made_spans.spans_of(0, 1))
        assert len(reading.troubles) == bool(torn)


def test_a_length_that_is_wrong_costs_the_block_that_has_it_alone(tmp_path: Path) -> None:
    folder = made_spans.made(tmp_path)
    [first, _] = segments(folder)
    whole = bytearray(first.path.read_bytes())
    for length in (0, len(whole), 2 * len(whole)):
        damaged = bytearray(whole)
        struct.pack_into("<I", damaged, 8, length)
        first.path.write_bytes(damaged + whole + whole)
        reading = Reading()
        assert len(list(reading.blocks(first.path))) == 2
        assert len(reading.troubles) == 1


ODD = {
    "rank": Span(rank=2**40, attempt=1, node="n", kind="step"),
    "a rank below 0": Span(rank=-1, attempt=1, node="n", kind="step"),
    "step": Span(rank=0, attempt=1, node="n", kind="step", step=2**40),
    "a time that was taken back": Span(rank=0, attempt=1, node="n", kind="step", took_s=-1.0),
    "a beginning that no calendar has": Span(
        rank=0, attempt=1, node="n", kind="step", start_s=1e12
    ),
}


@pytest.mark.parametrize("span", ODD.values(), ids=ODD.keys())
def test_numbers_that_no_span_has_are_no_block(span: Span) -> None:
    """They would cost whoever asks the tables all of the job's traces."""
    with pytest.raises(NoBlock):
        decode(encode(made_spans.block_of([span])))


@pytest.mark.parametrize("told", [{"wall_s": 1e300}, {"submitted_s": 1e300}, {"dropped": -1}])
def test_nor_are_times_that_there_are_not(told: dict[str, float]) -> None:
    with pytest.raises(NoBlock):
        decode(encode(replace(made_spans.block_of(made_spans.spans_of(0, 2)), **told)))


def test_another_version_is_told_with_both_numbers(tmp_path: Path) -> None:
    folder = made_spans.made(tmp_path)
    [first, _] = segments(folder)
    data = bytearray(first.path.read_bytes())
    struct.pack_into("<H", data, 4, 9)
    first.path.write_bytes(data)
    reading = Reading()
    assert list(reading.blocks(first.path)) == []
    assert "it is of version 9, and this Holdfast reads version 1" in reading.troubles[0]


def test_a_file_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    reading = Reading()
    assert list(reading.blocks(tmp_path)) == []
    assert reading.troubles == [f"{tmp_path}: Is a directory; its spans are not shown."]


def test_a_full_disk_costs_one_block_and_leaves_no_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made_spans.made(tmp_path)
    before = {each.path: each.path.read_bytes() for each in segments(folder)}
    write, calls = os.write, []

    def full(fd: int, data: bytes) -> int:
        calls.append(data)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data[:10])

    monkeypatch.setattr(os, "write", full)
    place = Place(folder, "speech", 1, "node-1", 60.0)
    with pytest.raises(Away, match="No space left on device"):
        FileSink().put(place, before[segments(folder)[0].path])
    assert {each.path: each.path.read_bytes() for each in segments(folder)} == before


def test_files_go_once_they_are_a_week_old_or_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = made_spans.block_of(made_spans.spans_of(0))
    week_h = int(KEPT_S / HOUR_S)
    for hour in (0, 1, 5, week_h, week_h + 1):
        folder = made_spans.write(tmp_path, block, now_s=hour * HOUR_S)
    assert [each.hour for each in segments(folder)] == [1, 5, week_h, week_h + 1]
    size = segments(folder)[0].path.stat().st_size
    monkeypatch.setattr("holdfast.traces.sinks.files.KEPT_BYTES", 2 * size)
    sweep(Place(folder, "speech", 1, "node-9", 0.0))
    assert len(segments(folder)) == 4, "what other nodes wrote is theirs"
    sweep(Place(folder, "speech", 1, "node-1", 0.0))
    assert [each.hour for each in segments(folder)] == [week_h, week_h + 1]


@given(st.permutations(range(6)))
def test_of_what_was_told_again_the_last_word_counts(order: list[int]) -> None:
    began = {"rank": 0, "attempt": 1, "node": "n", "kind": "step", "start_s": 1.0}
    grown = [Span(took_s=float(took), ended=False, **began) for took in range(1, 5)]  # type: ignore[arg-type]
    ended = Span(took_s=2.5, **began)  # type: ignore[arg-type]
    other = Span(rank=1, attempt=1, node="n", kind="step", start_s=0.5)
    told = [*grown, ended, other]
    assert longest([told[place] for place in order]) == [other, ended]
    unended = [told[place] for place in order if told[place] not in (ended, other)]
    assert longest(unended) == [grown[-1]]


def test_a_block_of_nothing_is_one() -> None:
    assert isinstance(decode(encode(made_spans.block_of([]))), Block)
