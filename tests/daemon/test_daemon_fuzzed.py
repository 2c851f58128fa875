"""Whatever kernel, devices and ranks say, each sampler answers, and its answer can be sent."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import structlog
from hypothesis import HealthCheck, given
from hypothesis import settings as profile
from hypothesis import strategies as st
from printing import printed

from holdfast.daemon.samplers import readings
from holdfast.daemon.samplers.guard import Guard
from holdfast.daemon.samplers.logs import KernelLog
from holdfast.daemon.samplers.nics import Nics
from holdfast.daemon.samplers.outputs import Outputs
from holdfast.daemon.samplers.pressure import HostPressure
from holdfast.daemon.samplers.progress import Progress
from holdfast.daemon.samplers.readings import Readings
from holdfast.daemon.samplers.tail import KernelMessages, Tail
from holdfast.daemon.settings import Settings
from holdfast.protocol import wire
from holdfast.protocol.messages import Heartbeat
from holdfast.telemetry import schema
from holdfast.telemetry.recorder import Recorder
from holdfast.telemetry.ring import RingWriter

FIFO, FOLDER, MISSING = "a pipe that nobody writes to", "a folder", "nothing"
WORDS = [b"0", b"1", b"N/A", b"-1", b"4: ACTIVE", b"avg10=nan", b"avg10=inf", b"MemTotal: 1", b":"]
CONTENT = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", b"\xff\xfe", b"9" * 5_000, b"\xd9\xa3", b"1e400", b" 7\n", *WORDS]),
    st.lists(st.sampled_from([*WORDS, b" ", b"\n", b"some", b"cpu"]), max_size=12).map(b"".join),
    st.sampled_from([FIFO, FOLDER, MISSING]),
)
FIXTURES = profile(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None
)


def put(path: Path, content: Any) -> None:
    """Make `path` what is said, whatever is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        path.rmdir() if path.is_dir() else path.unlink()
    if content == FIFO:
        os.mkfifo(path)
    elif content == FOLDER:
        path.mkdir()
    elif content != MISSING:
        path.write_bytes(content)


def sendable(**said: Any) -> None:
    beat = Heartbeat(node="n", incarnation="i", sequence=1, uptime_s=1.0, executor_alive=True)
    wire.encode(Heartbeat(**{**{f: getattr(beat, f) for f in beat.__struct_fields__}, **said}))


@pytest.fixture
def said() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as logs:
        yield logs


# ---------------------------------------------------------------- /sys and /proc

NET = [
    "carrier",
    "carrier_changes",
    *(f"statistics/{way}_{what}" for way in ("tx", "rx") for what in ("bytes", "errors")),
]
PORT = ["state", "counters/port_xmit_data", "counters/symbol_error", "hw_counters/x_err"]


@FIXTURES
@given(
    net=st.lists(CONTENT, min_size=6, max_size=6), port=st.lists(CONTENT, min_size=4, max_size=4)
)
def test_nics_answer_whatever_their_counters_hold(
    tmp_path: Path, net: list[Any], port: list[Any]
) -> None:
    nics = Nics(tmp_path)
    for now in (1.0, 2.0):
        for name, content in zip(NET, net, strict=True):
            put(tmp_path / "class/net/eth0" / name, content)
        for name, content in zip(PORT, port, strict=True):
            put(tmp_path / "class/infiniband/mlx5_0/ports/1" / name, content)
        nics.went_down()
        seen = nics.sample(now)
        assert [nic.name for nic in seen] == ["eth0", "mlx5_0/1"]
        sendable(nics=seen)


@FIXTURES
@given(files=st.lists(CONTENT, min_size=5, max_size=5))
def test_pressure_is_between_nothing_and_all_whatever_proc_says(
    tmp_path: Path, files: list[Any]
) -> None:
    host = HostPressure(tmp_path, proc=tmp_path)
    names = ("pressure/cpu", "pressure/memory", "pressure/io", "meminfo", "stat")
    for _ in range(2):
        for name, content in zip(names, files, strict=True):
            put(tmp_path / name, content)
        seen = host.sample()
        figures = (seen.cpu, seen.memory, seen.io, seen.memory_used, seen.scratch_used, seen.steal)
        assert all(0 <= figure <= 1 for figure in figures)
        sendable(pressure=seen)


BAD = {
    "no utf-8": b"\xff\xfe",
    "5,000 digits": b"9" * 5_000,
    "empty": b"",
    "negative": b"-1",
    "a folder": FOLDER,
    "a pipe": FIFO,
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_a_bad_counter_is_said_once_and_the_others_are_told(
    tmp_path: Path, said: list[Any], content: Any
) -> None:
    for name, value in {"carrier": b"1", "statistics/tx_bytes": b"5"}.items():
        put(tmp_path / "class/net/eth0" / name, value)
    put(tmp_path / "class/net/eth0/statistics/rx_bytes", content)
    nics = Nics(tmp_path)
    for now in range(1, 4):
        put(tmp_path / "class/net/eth0/statistics/tx_bytes", str(100 * now).encode())
        (seen,) = nics.sample(float(now))
    assert (seen.up, seen.sent_bytes_per_s, seen.received_bytes_per_s) == (True, 100.0, 0.0)
    (line,) = said
    assert (line["event"], line["sampler"]) == ("unreadable", "nics")
    assert line["file"].endswith("rx_bytes")


@pytest.mark.parametrize("content", [b"N/A", MISSING])
def test_a_counter_that_this_hardware_has_not_is_nothing_to_speak_of(
    tmp_path: Path, said: list[Any], content: Any
) -> None:
    put(tmp_path / "counter", content)
    assert Readings("any").number(tmp_path / "counter") is None
    assert said == []


def test_an_error_of_the_device_is_said_once_and_a_link_is_then_as_it_was(
    tmp_path: Path, said: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "class/net/eth0/carrier", b"1")
    nics = Nics(tmp_path)
    assert not nics.went_down()

    def failing(path: Path, limit: int) -> NoReturn:
        raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr(readings, "read_bytes", failing)
    assert not nics.went_down(), "nobody said that it is down"
    assert nics.sample(1.0)[0].up
    assert len([line for line in said if line["file"].endswith("carrier")]) == 1
    assert {line["why"] for line in said} == {"Input/output error"}


def test_an_interface_may_have_any_bytes_for_a_name(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"class/net/\xff\xfe")).mkdir(parents=True)
    (seen,) = Nics(tmp_path).sample(1.0)
    sendable(nics=(seen,))


# ---------------------------------------------------------------- rings


@pytest.fixture
def ring(tmp_path: Path) -> bytes:
    recorder = Recorder(RingWriter(tmp_path / "whole", rank=0, epoch=1))
    group, peer = recorder.new_group([0, 1]), recorder.peer(1)
    assert group is not None
    assert peer is not None
    group.enqueue(1, 2)
    with recorder.phase("forward"):
        recorder.reported(3, 0.5, 7)
    return (tmp_path / "whole").read_bytes()


CHANGES = st.lists(
    st.tuples(
        st.integers(0, schema.MEMBERS_AT // 8 - 1) | st.integers(0, schema.STATE_AT // 8 + 24),
        st.integers(0, 2**64 - 1) | st.integers(0, 70),
    ),
    max_size=6,
)


@FIXTURES
@given(before=CHANGES, after=CHANGES, cut=st.none() | st.integers(0, schema.SIZE))
def test_a_ring_with_anything_in_it_is_read_or_refused_beside_one_that_is_well(
    tmp_path: Path, ring: bytes, before: Any, after: Any, cut: int | None
) -> None:
    rings = tmp_path / "rings"
    bad = rings / "job.e1.r1.ring"
    put(rings / "job.e1.r0.ring", ring)
    put(bad, changed(ring[:24] + (1).to_bytes(4, "little") + ring[28:], before))
    progress = Progress(rings)
    progress.sample(1.0)
    sendable(ranks=progress.ranks(1.0))
    with bad.open("r+b") as file:  # the same file: a rank goes on writing, or cuts it
        file.write(changed(bad.read_bytes(), after))
        file.truncate(cut if cut is not None else schema.SIZE)
    progress.sample(2.0)
    told = progress.ranks(2.0)
    sendable(ranks=told)
    assert told[0].rank == 0
    assert [group.enqueued for group in told[0].groups] == [1]


def changed(data: bytes, words: list[tuple[int, int]]) -> bytes:
    new = bytearray(data)
    for place, value in words:
        new[8 * place : 8 * place + 8] = value.to_bytes(8, "little")
    return bytes(new)


@FIXTURES
@given(
    name=st.binary(min_size=1, max_size=60).filter(lambda b: not set(b) & set(b"/\0")),
    content=CONTENT,
)
def test_whatever_lies_among_the_rings_under_any_name_is_left_there(
    tmp_path: Path, name: bytes, content: Any
) -> None:
    rings = tmp_path / "rings"
    rings.mkdir(exist_ok=True)
    for path in (rings / os.fsdecode(name + b".e1.r0.ring"), rings / f"j.e{'9' * 200}.r0.ring"):
        put(path, content)
    progress = Progress(rings)
    progress.sample(1.0)
    sendable(ranks=progress.ranks(1.0))
    for path in rings.iterdir():
        put(path, MISSING)


# ---------------------------------------------------------------- logs


LINES = [b"NVRM: Xid (PCI:0): 79, x\n", b"loss: nan\r", b"CUDA error", b"x" * 70_000]


@FIXTURES
@given(pieces=st.lists(st.binary(max_size=60) | st.sampled_from(LINES), max_size=8))
def test_logs_may_hold_any_bytes(tmp_path: Path, settings: Settings, pieces: list[bytes]) -> None:
    path = settings.paths.kernel_log
    path.write_bytes(b"")
    shutil.rmtree(tmp_path / "rank_0.2", ignore_errors=True)
    settings.paths.outputs_read.unlink(missing_ok=True)
    files = printed(settings, tmp_path, rules=("Xid", "."))
    kernel = KernelLog(Tail(path))
    ranks = Outputs(settings.paths.outputs, settings.paths.outputs_read)
    kernel.hits(0.0)
    for piece in pieces:
        for file in (path, files / "stdout.log"):
            with file.open("ab") as log:
                log.write(piece)
        sendable(logs=(*kernel.hits(0.0), *ranks.hits(0.0)))


@FIXTURES
@given(content=CONTENT, noted=CONTENT)
def test_what_is_written_down_of_outputs_may_be_anything(
    tmp_path: Path, settings: Settings, content: Any, noted: Any
) -> None:
    paths = settings.paths
    put(paths.outputs_read, noted)
    put(paths.output("job", 1, 0), content)
    shutil.rmtree(tmp_path / "rank_0.2", ignore_errors=True)
    printed(settings, tmp_path, stderr="an ECC error\n")
    (hit,) = Outputs(paths.outputs, paths.outputs_read).hits(10.0)
    assert hit.rule == "ECC error"


@pytest.mark.parametrize("content", [FIFO, FOLDER, b""])
def test_a_log_that_is_no_file_stops_nobody(tmp_path: Path, said: list[Any], content: Any) -> None:
    put(tmp_path / "log", content)
    tail, messages = Tail(tmp_path / "log"), KernelMessages(tmp_path / "log")
    for _ in range(3):
        assert (tail.lines(), messages.lines()) == ([], [])
    assert len(said) <= 2


# ---------------------------------------------------------------- the guard


def test_a_sampler_that_fails_is_said_once_and_the_others_are_heard(said: list[Any]) -> None:
    guard = Guard()
    broken: dict[str, int] = {}
    for _ in range(3):
        assert guard.ask("broken", lambda: broken["x"], 5) == 5
        assert guard.ask("well", lambda: 7, 0) == 7
    assert [(line["event"], line["sampler"]) for line in said] == [("unreadable", "broken")]
