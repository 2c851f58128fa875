"""Samplers and probes, each against real files, processes and sockets."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import eventually, eventually_async

from holdfast.daemon.probes import responder
from holdfast.daemon.probes.prober import LOOKED_S, Prober
from holdfast.daemon.samplers import processes
from holdfast.daemon.samplers.logs import TOLD_A_WINDOW, WINDOW_S, KernelLog
from holdfast.daemon.samplers.nics import MOST_OVER, WRAP, Nics, grown
from holdfast.daemon.samplers.pressure import HostPressure
from holdfast.daemon.samplers.processes import Sibling
from holdfast.daemon.samplers.progress import FORGET_GONE_S, TELL_UNTIL_S, Progress
from holdfast.daemon.samplers.tail import Tail
from holdfast.kit import procstat
from holdfast.kit.clock import SystemClock
from holdfast.telemetry.recorder import Recorder
from holdfast.telemetry.ring import RingWriter

# ---------------------------------------------------------------- NICs


@given(to_go=st.integers(1, MOST_OVER), share=st.floats(0, 1))
def test_a_counter_of_32_bits_grows_over_its_wrap(to_go: int, share: float) -> None:
    by = to_go + int(share * (MOST_OVER - to_go))
    before = WRAP - to_go
    assert grown(before, (before + by) % WRAP) == by


@pytest.mark.parametrize("before", [1_000, WRAP // 2, 3_000_000_000, WRAP - MOST_OVER, 1 << 40])
def test_a_counter_that_was_reset_has_gone_nobody_knows_how_far(before: int) -> None:
    assert grown(before, 30) == 0


def put(root: Path, name: str, value: object) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(f"{value}\n")


def test_rdma_counters_are_octets_by_four_and_what_is_not_there_is_zero(tmp_path: Path) -> None:
    port = "class/infiniband/mlx5_0/ports/1"
    put(tmp_path, f"{port}/state", "4: ACTIVE")
    put(tmp_path, f"{port}/counters/port_xmit_data", 4_294_967_290)
    put(tmp_path, f"{port}/counters/port_rcv_data", "N/A")
    put(tmp_path, f"{port}/hw_counters/lifespan", 10)
    put(tmp_path, f"{port}/hw_counters/local_ack_timeout_err", 0)
    nics = Nics(tmp_path)
    assert nics.sample(10.0)[0].sent_bytes_per_s == 0
    put(tmp_path, f"{port}/counters/port_xmit_data", 94)
    put(tmp_path, f"{port}/hw_counters/local_ack_timeout_err", 6)
    (seen,) = nics.sample(12.0)
    assert (seen.name, seen.up) == ("mlx5_0/1", True)
    assert (seen.sent_bytes_per_s, seen.received_bytes_per_s) == (200.0, 0.0)
    assert seen.errors_per_s == 3.0


def test_lanes_are_those_of_the_device_s_bus(tmp_path: Path) -> None:
    put(tmp_path, "class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE")
    put(tmp_path, "class/infiniband/mlx5_0/device/current_link_width", 8)
    put(tmp_path, "class/net/eth0/carrier", 1)
    put(tmp_path, "class/net/eth1/device/current_link_width", 0)
    lanes = {nic.name: nic.lanes for nic in Nics(tmp_path).sample(1.0)}
    assert lanes == {"eth0": None, "eth1": None, "mlx5_0/1": 8}


def test_the_machines_own_tree_can_be_read() -> None:
    nics = Nics(Path("/sys"))
    nics.sample(0.0)
    assert all(nic.name != "lo" for nic in nics.sample(1.0))


def test_only_the_interface_that_carries_the_job_is_watched(tmp_path: Path) -> None:
    for name in ("eth0", "wlan0"):
        put(tmp_path, f"class/net/{name}/carrier", 1)
    assert [nic.name for nic in Nics(tmp_path, "eth0").sample(0.0)] == ["eth0"]


# ---------------------------------------------------------------- files and host


def test_a_tail_gives_whole_new_lines_and_follows_a_file_that_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = Tail(path)
    assert tail.lines() == []
    path.write_text("one\ntw")
    assert tail.lines() == ["one"], "it came after the first look: all of it is new"
    with path.open("a") as log:
        log.write("o\nthree\n")
    assert tail.lines() == ["two", "three"]
    path.write_text("new\n")
    assert tail.lines() == ["new"]


def test_a_tail_starts_at_the_end_of_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("old\n")
    tail = Tail(path)
    assert tail.lines() == []
    with path.open("a") as log:
        log.write("new\n")
    assert tail.lines() == ["new"]


def test_pressure_comes_from_proc(tmp_path: Path) -> None:
    put(tmp_path, "pressure/cpu", "some avg10=12.50 avg60=1.00 avg300=0.00 total=1")
    put(tmp_path, "meminfo", "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB")
    put(tmp_path, "stat", "cpu 10 0 0 10 0 0 0 0 0 0")
    host = HostPressure(tmp_path, proc=tmp_path)
    host.sample()
    put(tmp_path, "stat", "cpu 15 0 0 10 0 0 0 5 0 0")
    seen = host.sample()
    assert (seen.cpu, seen.memory, seen.memory_used, seen.steal) == (0.125, 0.0, 0.75, 0.5)
    assert 0 < seen.scratch_used < 1


def test_a_host_that_tells_nothing_is_under_no_pressure(tmp_path: Path) -> None:
    seen = HostPressure(tmp_path / "nowhere", proc=tmp_path).sample()
    assert (seen.cpu, seen.memory_used, seen.scratch_used, seen.steal) == (0, 0, 0, 0)


# ---------------------------------------------------------------- the kernel's own words

FELL_OFF = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("head", "xids"),
    [
        ("4,1042,987654,-;", [79]),
        ("3,1042,987654,-,caller=T7;", [79]),
        ("", [79]),  # a feed without heads, as of an emulated node
        ("12,1042,987654,-;", []),  # user: `echo > /dev/kmsg` gets at least that
        ("30,1042,987654,-;", []),  # daemon, which a program may say of itself
    ],
)
def test_what_a_program_writes_to_the_kernel_log_is_no_word_of_the_kernel(
    tmp_path: Path, head: str, xids: list[int]
) -> None:
    path = tmp_path / "kmsg"
    path.touch()
    log = KernelLog(Tail(path))
    assert log.hits(0.0) == []
    path.write_text(f"{head}{FELL_OFF}\n")
    assert [hit.xid for hit in log.hits(0.0)] == xids


OOM = "Out of memory: Killed process 4242 (python) total-vm:9GB"


def test_a_flood_of_one_kind_of_line_leaves_room_for_another_and_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.touch()
    log = KernelLog(Tail(path))
    assert log.hits(0.0) == []
    path.write_text(f"4,1,1,-;{OOM}\n" * 500 + f"4,2,2,-;{FELL_OFF}\n")
    hits = log.hits(1.0)
    assert [hit.rule for hit in hits] == ["oom-kill"] * TOLD_A_WINDOW + ["xid"]
    assert log.unreadable == ("kernel log: 492 more of oom-kill within a minute",)
    with path.open("a") as file:
        file.write(f"{OOM}\n")
    assert len(log.hits(1.0 + WINDOW_S)) == 1
    assert log.unreadable == ()


# ---------------------------------------------------------------- processes


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


def named(pid: int, command: bytes) -> None:
    """Wait for a command line: `Popen` comes back when its pipe is closed, which is before that."""
    eventually(lambda: command in Path(f"/proc/{pid}/cmdline").read_bytes(), f"{command!r} runs")


def test_a_child_is_a_descendant_until_it_is_reaped(child: Any) -> None:
    assert child.pid in procstat.descendants(os.getpid())
    child.kill()
    child.wait()
    assert child.pid not in procstat.descendants(os.getpid())


@pytest.mark.parametrize("error", [FileNotFoundError, ProcessLookupError, PermissionError])
def test_a_process_that_is_reaped_while_it_is_looked_at_has_no_children(
    monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    def reaped(path: object) -> NoReturn:
        raise error(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", reaped)
        patched.setattr(os, "listdir", reaped)
        found = procstat.descendants(os.getpid())
    assert found == []


def test_the_executor_is_a_sibling_and_its_end_is_seen_and_its_return(
    child: subprocess.Popen[bytes],
) -> None:
    executor = Sibling(os.getpid(), b"sleep")
    named(child.pid, b"sleep")
    assert executor.alive()
    child.kill()
    child.wait()
    assert not executor.alive()
    again = subprocess.Popen(["sleep", "1000"])
    try:
        named(again.pid, b"sleep")
        assert executor.alive()
    finally:
        again.kill()
        again.wait()


def test_an_executor_in_the_middle_of_its_exec_is_seen_at_a_later_look(
    monkeypatch: pytest.MonkeyPatch, child: subprocess.Popen[bytes]
) -> None:
    named(child.pid, b"sleep")
    executor = Sibling(os.getpid(), b"sleep")
    with monkeypatch.context() as patched:
        patched.setattr(processes, "_command", lambda pid: [])  # no command line yet
        assert executor.alive(), "never seen: nothing is claimed"
    assert executor.alive()
    child.kill()
    child.wait()
    assert not executor.alive(), "it was seen at the second look"


def test_an_executor_that_cannot_be_seen_is_not_called_dead() -> None:
    assert Sibling(os.getpid(), b"no such command").alive()


def test_ranks_of_an_older_epoch_and_files_that_are_no_rings_are_not_told_of(
    tmp_path: Path,
) -> None:
    for epoch, rank in ((1, 0), (2, 0), (2, 1)):
        path = tmp_path / f"my.job.e{epoch}.r{rank}.ring"
        Recorder(RingWriter(path, rank=rank, epoch=epoch)).reported(epoch, None, None)
    (tmp_path / "my.job.e3.r0.ring").write_bytes(b"torn")
    (tmp_path / "notes.txt").write_text("x")
    progress = Progress(tmp_path)
    progress.sample(1.0)
    told = progress.ranks(1.0)
    assert [(seen.job, seen.epoch, seen.rank) for seen in told] == [
        ("my.job", 2, 0),
        ("my.job", 2, 1),
    ]
    assert {seen.process in "RSD" for seen in told} == {True}


def test_a_ring_whose_pid_is_another_process_now_belongs_to_nobody_alive(
    tmp_path: Path, child: Any
) -> None:
    path = tmp_path / "job.e1.r0.ring"
    RingWriter(path, rank=0, epoch=1)
    data = bytearray(path.read_bytes())
    data[32:40] = child.pid.to_bytes(8, "little")  # as if the pid had been used again
    path.write_bytes(data)
    progress = Progress(tmp_path)
    progress.sample(1.0)
    assert progress.ranks(1.0)[0].process == "gone"
    assert progress.ranks(1.0 + FORGET_GONE_S) == ()


def test_still_is_since_progress_and_silent_since_the_pulse(tmp_path: Path) -> None:
    recorder = Recorder(RingWriter(tmp_path / "job.e1.r0.ring", rank=0, epoch=1))
    progress = Progress(tmp_path)
    progress.sample(10.0)
    recorder.reported(1, None, None)
    progress.sample(11.0)
    recorder.ring.word(0, 7)
    progress.sample(13.0)
    (seen,) = progress.ranks(14.0)
    assert (seen.still_s, seen.silent_s) == (3.0, 1.0)


def test_what_a_rank_was_in_is_told_once_a_peer_has_gone_though_it_goes_on(
    tmp_path: Path, child: Any
) -> None:
    """It may take a second to die of it, and what it was in explains the peer's end."""
    for rank in (0, 1):
        recorder = Recorder(RingWriter(tmp_path / f"job.e1.r{rank}.ring", rank=rank, epoch=1))
        group = recorder.new_group([0, 1])
        assert group is not None
        group.enqueue(1, 7 + rank)
    progress = Progress(tmp_path)
    progress.sample(1.0)
    assert [seen.recent for seen in progress.ranks(1.0)] == [(), ()]
    lost = tmp_path / "job.e1.r0.ring"
    data = bytearray(lost.read_bytes())
    data[32:40] = child.pid.to_bytes(8, "little")  # as if the pid had been used again
    lost.unlink()
    progress.sample(1.1)
    lost.write_bytes(data)
    progress.sample(1.2)
    told = [[each.collectives for each in seen.recent] for seen in progress.ranks(1.2)]
    assert told == [[((1, "all_reduce", 7),)], [((1, "all_reduce", 8),)]]
    progress.sample(1.2 + TELL_UNTIL_S)
    assert progress.ranks(1.2 + TELL_UNTIL_S)[1].recent == ()


def test_how_long_ago_a_rank_started_is_told_until_it_has_trained_for_a_while(
    tmp_path: Path,
) -> None:
    recorder = Recorder(RingWriter(tmp_path / "job.e1.r0.ring", rank=0, epoch=1))
    progress = Progress(tmp_path)
    progress.sample(time.monotonic())
    recorder.is_past("group")
    recorder.stepped()
    now = time.monotonic()
    (seen,) = progress.ranks(now + 5.0)
    assert list(seen.starts_s) == ["group", "step"]
    assert seen.starts_s["step"] == pytest.approx(5.0, abs=1.0)
    (seen,) = progress.ranks(now + TELL_UNTIL_S)
    assert seen.starts_s == {}


# ---------------------------------------------------------------- probes


async def probed(port: int, fact: Any) -> Any:
    prober = Prober(SystemClock(), port)
    prober.use({"other": "127.0.0.1"}, 0)
    running = asyncio.create_task(prober.run())
    try:
        return await eventually_async(
            lambda: next((seen for seen in prober.probes() if fact(seen)), None), "an answer"
        )
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_a_neighbour_that_listens_answers() -> None:
    server = await responder.serve("127.0.0.1", 0)
    assert server is not None
    port = server.sockets[0].getsockname()[1]
    seen = await probed(port, lambda seen: seen.ok)
    assert seen.rtt_s > 0
    assert await responder.serve("127.0.0.1", port) is None, "the port is taken: said, not raised"
    server.close()
    alone = {asyncio.current_task()}
    await eventually_async(lambda: asyncio.all_tasks() == alone, "it has hung up on all")


async def test_a_neighbour_whose_process_is_gone_refuses_which_is_an_answer() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # and does not listen
        port = deaf.getsockname()[1]
        seen = await probed(port, lambda seen: seen.reset and seen.silent_s < 1)
    assert not seen.ok


async def test_a_stopped_process_still_answers_for_its_node() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:  # nobody accepts
        assert (await probed(server.getsockname()[1], lambda seen: seen.ok)).rtt_s > 0


async def test_a_neighbour_that_drops_everything_is_silent() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        port = server.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:  # a full queue: the kernel drops what comes after
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        seen = await probed(port, lambda seen: seen.silent_s > 1)
        assert (seen.ok, seen.reset) == (False, False)
        for filler in fillers:
            filler.close()


def test_a_prober_that_stood_still_does_not_take_it_for_its_neighbours_silence() -> None:
    class Clock(SystemClock):
        now_s = 0.0

        def monotonic_s(self) -> float:
            return self.now_s

    clock = Clock()
    prober = Prober(clock, 1)
    prober.use({"other": "127.0.0.1"}, 0)
    clock.now_s = 30.0
    (seen,) = prober.probes()
    assert seen.silent_s <= LOOKED_S


def test_the_daemon_loads_neither_torch_nor_numpy() -> None:
    code = "import sys, holdfast.daemon.process; print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
