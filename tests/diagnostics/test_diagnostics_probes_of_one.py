"""Probes of one node: memory, disk, clock. What a node lacks, or others use, makes none bad."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.diagnostics.probes import Measured, clock, disk_read, disk_write, memory, scratch
from holdfast.diagnostics.probes.clock import Reading
from holdfast.protocol.messages import DiagnosticOrder

ORDER = DiagnosticOrder(id="d", test="any", time_box_s=5.0)
DISK = pytest.mark.parametrize("probe", [disk_write, disk_read])


# ---------------------------------------------------------------- memory


def test_memory_is_copied_by_each_processor_and_told_in_gb_a_second() -> None:
    found = memory.run(ORDER, "n1")
    assert found.ok
    assert found.value is not None
    assert 0.1 < found.value < 100_000
    cpus = min(memory.MOST_THREADS, len(os.sched_getaffinity(0)))
    assert found.detail == f"by {cpus} processors at once"


def test_a_node_that_is_short_of_memory_is_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: 100 << 20)
    found = memory.run(ORDER, "n1")
    assert (found.ok, found.value) == (None, None)
    assert found.detail.startswith("100 MiB of memory are free, and ")


def test_a_copy_that_is_not_the_same_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    class Faulty:
        """Copies all but the last byte."""

        def __getattr__(self, name: str) -> object:
            return getattr(REAL, name)

        def memcpy(self, target: object, source: object, size: object) -> None:
            REAL.memcpy(target, source, type(size)(size.value - 1))  # type: ignore[attr-defined,call-arg]

    monkeypatch.setattr(memory, "_libc", Faulty())
    found = memory.copies([next(iter(os.sched_getaffinity(0)))], 1 << 20, 0.0)
    assert (found.ok, found.wrong, found.detail) == (False, True, "1 of 1 copies are wrong")


REAL = memory._libc


def test_many_processors_are_as_many_as_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[int]] = []
    monkeypatch.setattr(memory.os, "sched_getaffinity", lambda _: set(range(100)))
    monkeypatch.setattr(memory, "free_bytes", lambda: None)
    monkeypatch.setattr(memory, "copies", lambda cpus, *_: asked.append(cpus))
    memory.run(ORDER, "n1")
    assert len(asked[0]) <= memory.MOST_THREADS
    assert asked[0] == list(range(0, 100, 7))  # all over the machine


def test_a_processor_that_is_gone_is_told_and_the_others_do_not_wait_for_it() -> None:
    found = memory.copies([next(iter(os.sched_getaffinity(0))), 1_000_000], 1 << 20, 0.0)
    assert (found.ok, found.detail) == (None, "cannot be run here: [Errno 22] Invalid argument")


def test_where_there_is_no_thread_for_one_the_others_do_not_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Few(threading.Thread):
        """One, and no more."""

        started = 0

        def start(self) -> None:
            if Few.started:
                raise RuntimeError("can't start new thread")
            Few.started += 1
            super().start()

    monkeypatch.setattr(threading, "Thread", Few)
    found = memory.copies([next(iter(os.sched_getaffinity(0)))] * 2, 1 << 20, 0.0)
    assert (found.ok, found.detail) == (None, "cannot be run here: can't start new thread")


# ---------------------------------------------------------------- disk


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HOLDFAST_NODE", "n1")
    monkeypatch.setenv("HOLDFAST_SCRATCH", str(tmp_path))
    yield tmp_path
    assert not list(tmp_path.iterdir())  # nothing is left


@DISK
def test_the_disk_is_measured_and_nothing_is_left_of_it(
    probe: SimpleNamespace, folder: Path
) -> None:
    found = probe.run(ORDER, "n1")
    assert found.ok
    if found.value is None:  # there is no disk below this test's folder, or no way past its cache
        assert "not compared: " in found.detail or "no disk, " in found.detail
    else:
        assert found.value > 0.1
        assert "MB/s here" in found.detail


@DISK
def test_a_disk_that_is_nearly_full_is_not_tested(
    probe: SimpleNamespace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = SimpleNamespace(f_bavail=255, f_frsize=1 << 20)
    monkeypatch.setattr(scratch.os, "statvfs", lambda _: full)
    found = probe.run(ORDER, "n1")
    text = f"255 MiB of the disk of {folder} are free, and 256 are needed"
    assert (found.ok, found.detail) == (None, text)


@DISK
def test_a_folder_that_is_not_there_is_told(
    probe: SimpleNamespace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_SCRATCH", str(folder / "none"))
    found = probe.run(ORDER, "n1")
    assert (found.ok, found.detail) == (None, f"{folder / 'none'}: No such file or directory")


@DISK
def test_a_disk_that_fills_up_meanwhile_is_not_called_bad(
    probe: SimpleNamespace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(scratch.os, "pwrite", full)
    found = probe.run(ORDER, "n1")
    assert (found.ok, found.detail) == (None, f"{folder}: No space left on device")


@DISK
def test_a_disk_that_had_room_for_a_part_is_not_called_bad(
    probe: SimpleNamespace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch.os, "pwrite", lambda fd, piece, begin: os.write(fd, b""))
    found = probe.run(ORDER, "n1")
    assert (found.ok, found.detail) == (None, f"{folder}: No space left on device")


def test_a_part_that_is_read_is_not_called_another_than_was_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_read.os, "preadv", lambda *_: 512)
    found = disk_read.run(ORDER, "n1")
    assert (found.ok, found.detail.removeprefix(f"{folder}: ")) == (
        None,
        "a part of what was written is not there",
    )


def test_what_is_read_otherwise_than_it_was_written_is_wrong(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(fd: int, into: list[bytearray], begin: int) -> int:
        into[0][:3] = b"bad"
        return len(into[0])

    monkeypatch.setattr(disk_read.os, "preadv", other)
    found = disk_read.run(ORDER, "n1")
    assert (found.ok, found.wrong) == (False, True)


def test_a_slow_disk_ends_in_time_with_as_much_as_it_did(folder: Path) -> None:
    with scratch.a_file(folder, for_s=0.0) as file:
        assert (file.pieces, list(file.each(9.0))) == (1, [0])
    with scratch.a_file(folder, for_s=60.0, most_bytes=3 * scratch.PIECE_BYTES) as file:
        assert list(file.each(60.0)) == [0, scratch.PIECE_BYTES, 2 * scratch.PIECE_BYTES]


def test_what_others_have_of_the_disk_is_its_speed_as_well() -> None:
    assert scratch.told(100.0, 1.0, "").value == 100.0
    shared = scratch.told(100.0, 1.25, "")
    assert (shared.value, shared.detail) == (125.0, "100 MB/s here, and others 25 MB/s")
    assert scratch.told(100.0, 0.0, "").value == 100.0  # the device tells nothing


def test_where_others_have_most_of_the_disk_it_is_told_and_not_compared() -> None:
    found = scratch.told(100.0, 4.0, "")
    text = "100 MB/s, not compared: others moved 3.0 times as much meanwhile"
    assert found == Measured(ok=True, detail=text)


def test_a_speed_that_may_be_that_of_memory_is_told_and_not_compared() -> None:
    found = scratch.told(5_000.0, 1.0, "no way past its cache")
    assert found == Measured(ok=True, detail="5000 MB/s, not compared: no way past its cache")


@DISK
def test_memory_is_no_disk_and_nothing_is_written_there(
    probe: SimpleNamespace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "file_system", lambda *_: "tmpfs")
    found = probe.run(ORDER, "n1")
    assert found == Measured(ok=True, detail=f"{folder}: no disk, tmpfs is memory")


def test_the_whole_device_is_looked_at_and_one_that_tells_nothing_is_none(tmp_path: Path) -> None:
    disk = tmp_path / "vda"
    (disk / "vda1").mkdir(parents=True)
    (disk / "stat").write_text(" 1 0 1000 5 1 0 3000 5 0 0 0\n")
    (disk / "vda1/stat").write_text(" 1 0 1 5 1 0 2 5 0 0 0\n")
    (disk / "vda1/partition").write_text("1\n")
    (tmp_path / "254:0").symlink_to(disk)
    (tmp_path / "254:1").symlink_to(disk / "vda1")
    (tmp_path / "254:2").mkdir()
    (tmp_path / "254:2/stat").write_text("what")
    found = [scratch.moved_bytes(254, minor, tmp_path) for minor in range(4)]
    assert found == [4_000 * 512, 4_000 * 512, 0, 0]


def test_the_kind_of_a_file_system_is_that_of_its_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 0:20 / /dev/shm rw shared:3 - tmpfs tmpfs rw\n"
        "23 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw\n"
    )
    found = [scratch.file_system(*each, mounts) for each in ((0, 20), (254, 1), (9, 9))]
    assert found == ["tmpfs", "ext4", ""]


# ---------------------------------------------------------------- clock


def test_this_machines_clock_goes_right_and_who_sets_it_is_told() -> None:
    found = clock.run(ORDER, "n1")
    assert (found.ok, found.value) == (True, None)
    assert " us from its counter" in found.detail


@pytest.mark.parametrize(("unset", "text"), [(True, "nothing sets it"), (False, "off by 0.015 s")])
def test_what_the_kernel_says_of_the_clock(*, unset: bool, text: str) -> None:
    assert text in clock.words(unset=unset, off_s=0.015)


def judged(ahead_ns: int, within_ns: int, over_ns: int = 200_000_000) -> Measured:
    last = Reading(over_ns + ahead_ns, over_ns, within_ns)
    return clock.judged(Reading(0, 0, within_ns), last, "")


@pytest.mark.parametrize("ahead_ns", [-300_000_000, -20_100_000, 20_100_000, 5_000_000_000])
def test_a_clock_that_jumps_runs_back_or_races_is_wrong(ahead_ns: int) -> None:
    found = judged(ahead_ns, within_ns=100)
    assert (found.ok, found.wrong) == (False, True)


@pytest.mark.parametrize(("jumps", "ok"), [(1, True), (2, False)])
def test_a_clock_that_is_set_once_is_not_wrong_and_one_that_goes_on_jumping_is(
    monkeypatch: pytest.MonkeyPatch, jumps: int, ok: bool
) -> None:
    at_ns = [0, 9_200, 10_000, 10_200 + 9_000 * (jumps - 1)]
    reads = iter(Reading(at * 10**6, nth * 200 * 10**6, 100) for nth, at in enumerate(at_ns))
    monkeypatch.setattr(clock, "read", lambda: next(reads))
    assert clock.run(ORDER, "n1").ok is ok


@given(
    rate=st.floats(-clock.FASTEST, clock.FASTEST),
    over_ns=st.integers(10**6, 10**10),
    late=st.integers(0, 10**9),
    share=st.floats(0, 1),
)
def test_no_clock_that_is_being_set_is_wrong_however_late_it_is_read(
    rate: float, over_ns: int, late: int, share: float
) -> None:
    ahead_ns = int(rate * over_ns) + int(share * late)  # read so late after its counter
    assert judged(ahead_ns, within_ns=late, over_ns=over_ns).ok
