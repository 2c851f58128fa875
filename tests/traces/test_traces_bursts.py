"""Bursts: as bytes, as files, as words; whatever the bytes are."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.traces.bursts import kept, said
from holdfast.traces.bursts.kept import Note
from holdfast.traces.bursts.record import HEAD, Burst, NoBurst, Rail, decode, encode
from holdfast.traces.sinks.files import KEPT_S


def burst_of(rails: dict[str, tuple[list[int], list[int]]], period_us: int = 1000) -> Burst:
    """Rails by name with what they received and sent from one sample to the next."""
    samples = max((len(received) + 1 for received, _ in rails.values()), default=0)
    return Burst(
        node="node-1",
        seconds=samples / 1000,
        missed=0,
        cpu_s=0.1,
        degraded="",
        at_us=[at * period_us for at in range(samples)],
        rails=[
            Rail(name=name, received=got, sent=sent, errors=[0] * len(got), drops=[0] * len(got))
            for name, (got, sent) in rails.items()
        ],
    )


def figures(burst: Burst) -> list[said.RailSaid]:
    return [said.rail_said(burst, rail) for rail in burst.rails]


COUNTS = st.integers(0, 2**40)


@given(st.data(), st.integers(0, 20), st.integers(0, 8))
def test_a_burst_is_decoded_as_it_was(data: st.DataObject, gaps: int, rails: int) -> None:
    column = st.lists(COUNTS, min_size=gaps, max_size=gaps)
    moved = {f"eth{at}": (data.draw(column), data.draw(column)) for at in range(rails)}
    burst = burst_of(moved)
    assert decode(encode(burst)) == burst


@given(st.binary(max_size=200), st.integers(0, 300), st.integers(0, 255))
def test_whatever_is_no_burst_is_said_to_be_none(noise: bytes, at: int, octet: int) -> None:
    with pytest.raises(NoBurst):
        decode(noise)
    data = bytearray(encode(burst_of({"eth0": ([1, 2], [3, 4])})))
    at = HEAD.size + at % (len(data) - HEAD.size)
    if data[at] != octet:
        data[at] = octet
        with pytest.raises(NoBurst, match="torn"):
            decode(bytes(data))


@given(st.binary(max_size=100), st.integers(0, 100))
def test_bytes_with_a_right_checksum_are_looked_at_as_closely(body: bytes, length: int) -> None:
    import zlib

    with pytest.raises(NoBurst):
        decode(HEAD.pack(b"HFBU", 1, length, zlib.crc32(body)) + body)


def test_ten_seconds_of_a_rail_at_its_utmost_take_no_more_than_100_kb() -> None:
    dice = random.Random(1)
    column = [[dice.randrange(2**26, 2**27) for _ in range(10_000)] for _ in range(2)]
    burst = burst_of({"eth0": (column[0], column[1])})
    jitter = [0]
    for _ in range(10_000):
        jitter.append(jitter[-1] + dice.randrange(900, 1_100))
    assert len(encode(replace(burst, at_us=jitter))) <= 100_000


def test_a_rhythm_and_its_gap_are_told() -> None:
    beat = ([100_000] * 30 + [0] * 170) * 20
    beat[1000:1600] = [0] * 600
    [each] = figures(burst_of({"eth0": (beat, [0] * len(beat))}))
    assert each.period_ms == pytest.approx(200, abs=5)
    assert 600 <= each.gap_ms <= 1000
    assert 0.8 < each.idle < 0.95
    assert each.mean == pytest.approx(sum(beat) / len(beat))
    assert each.peak == 100_000


def test_noise_has_no_rhythm() -> None:
    dice = random.Random(2)
    noise = [dice.randrange(200_000) for _ in range(5_000)]
    [each] = figures(burst_of({"eth0": (noise, noise)}))
    assert each.period_ms is None


def test_a_look_that_came_late_is_spread_and_makes_no_peak() -> None:
    burst = replace(burst_of({"eth0": ([1_000, 4_000], [0, 0])}), at_us=[0, 1_000, 5_000])
    [each] = figures(burst)
    assert said.bins(burst, burst.rails[0]) == [1_000.0] * 5
    assert each.peak == 1_000


def test_rails_that_are_not_used_alike_are_named() -> None:
    even, odd = [50_000] * 500, [10_000] * 500
    unlike = burst_of({"eth0": (even, even), "eth1": (odd, odd)})
    words = said.sentence(unlike, figures(unlike))
    assert "not used alike: eth0 moves 5.0 times as much as eth1" in words
    alike = burst_of({"eth0": (even, even), "eth1": (even, even)})
    assert said.sentence(alike, figures(alike)).endswith(" NICs are used alike.")


def test_rails_are_compared_with_those_of_their_kind_that_move_something() -> None:
    much, little, none = [50_000] * 500, [10_000] * 500, [0] * 500
    rails = {"eth0": (much, much), "eth1": (none, none), "mlx5_0/1": (none, none)}
    quiet = burst_of(rails)
    words = said.sentence(quiet, figures(quiet))
    assert "alike" not in words
    assert "mlx5_0/1 is quiet: never more than 0 B/s." in words
    ports = burst_of(rails | {"mlx5_1/1": (little, little), "mlx5_2/1": (much, much)})
    words = said.sentence(ports, figures(ports))
    assert words.endswith(
        " RDMA ports are not used alike: mlx5_2/1 moves 5.0 times as much as mlx5_1/1."
    )


def test_what_is_quiet_and_what_is_degraded_are_said() -> None:
    quiet = replace(burst_of({"eth0": ([1] * 50, [0] * 50)}), degraded="It was too busy.")
    words = said.sentence(quiet, figures(quiet))
    assert words.startswith("eth0 is quiet")
    assert words.endswith("It was too busy.")
    none = replace(burst_of({}), degraded="What came meanwhile is spread evenly.")
    assert said.sentence(none, []) == "There is no rail to count."


# ---------------------------------------------------------------- files

NOTE = Note(
    id=0,
    node="node-1",
    began_at="2026-01-01T00:00:00.000+00:00",
    began_s=5.0,
    why="a person asked",
    incident=None,
    rails=["eth0"],
    samples=3,
)
DATA = encode(burst_of({"eth0": ([1, 2], [3, 4])}))


def test_bursts_are_counted_and_read_again(tmp_path: Path) -> None:
    assert kept.notes(tmp_path, "job") == []
    first, second = (kept.keep(tmp_path, "job", NOTE, DATA) for _ in range(2))
    assert (first.id, second.id) == (1, 2)
    assert kept.notes(tmp_path, "job") == [first, second]
    assert kept.read(tmp_path, "job", 2) == (second, decode(DATA))
    with pytest.raises(FileNotFoundError):
        kept.read(tmp_path, "job", 3)


def test_they_go_after_a_week_or_once_they_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.keep(tmp_path, "job", NOTE, DATA)
    late = replace(NOTE, began_s=NOTE.began_s + KEPT_S)
    assert kept.keep(tmp_path, "job", late, DATA).id == 2
    assert [each.id for each in kept.notes(tmp_path, "job")] == [2]
    monkeypatch.setattr(kept, "MOST_KEPT", 3)
    for _ in range(4):
        kept.keep(tmp_path, "job", late, DATA)
    assert [each.id for each in kept.notes(tmp_path, "job")] == [4, 5, 6]


def test_a_file_that_was_cut_short_is_said_to_be(tmp_path: Path) -> None:
    note = kept.keep(tmp_path, "job", NOTE, DATA)
    path = kept.folder(tmp_path, "job") / f"{note.id}.burst"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(NoBurst):
        kept.read(tmp_path, "job", note.id)
    path.write_bytes(b"\xff\n")
    assert kept.notes(tmp_path, "job") == []
    with pytest.raises(NoBurst, match="no note"):
        kept.read(tmp_path, "job", note.id)
