"""The daemon against a driver on a real WebSocket: heartbeats, urgent ones, and drivers away."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from printing import printed
from waiting import DEADLINE_S, eventually_async

from holdfast.daemon.process import _end
from holdfast.daemon.samplers.outputs import Outputs
from holdfast.daemon.settings import Settings, read
from holdfast.kit.clock import SystemClock
from holdfast.protocol import exitcodes
from holdfast.protocol.messages import Acknowledged, Refused, WatchOrder
from holdfast.protocol.nodeenv import BadSettings

RANK = """
import sys, time
from pathlib import Path
from holdfast.telemetry.recorder import Recorder
from holdfast.telemetry.ring import RingWriter
recorder = Recorder(RingWriter(Path(sys.argv[1]), rank=0, epoch=2))
recorder.start()
recorder.reported(4, 0.5, 10)
print("there", flush=True)
while True:
    line = sys.stdin.readline()
    if not line:
        break
    print(line, end="", file=sys.stderr, flush=True)
"""


@pytest.fixture
def rank(settings: Settings, tmp_path: Any) -> Any:
    """A real process with a ring, whose stderr goes to a file."""
    ring = settings.paths.ring("job", 2, 0)
    with (tmp_path / "stderr.log").open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", RANK, str(ring)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "there\n"
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


async def beats_only_when_urgent(driver: Any, daemon: Any) -> None:
    """From here on a heartbeat comes in an hour, or because it is urgent."""
    await driver.say(WatchOrder(heartbeat_period_s=3600.0))
    await eventually_async(lambda: daemon._period_s == 3600.0, "the new period is known")


async def test_it_greets_with_its_token_and_beats_at_the_period_it_is_told(
    driver: Any, daemon: Any
) -> None:
    await eventually_async(lambda: len(driver.beats) > 5, "heartbeats")
    assert driver.requests == [("/v1alpha1/nodes/node-1/daemon", "Bearer secret")]
    (hello,) = driver.hellos
    assert (hello.process, hello.node, hello.incarnation) == ("daemon", "node-1", "one")
    sequences = [beat.sequence for beat in driver.beats]
    assert sequences == sorted(set(sequences))
    await beats_only_when_urgent(driver, daemon)
    heard = len(driver.beats)
    await asyncio.sleep(0.5)
    assert len(driver.beats) <= heard + 2, "those on their way, not five"


async def test_a_heartbeat_has_the_ranks_and_what_the_host_is_like(
    driver: Any, daemon: Any, rank: Any
) -> None:
    await eventually_async(lambda: driver.beats and driver.beats[-1].ranks, "the rank is told of")
    seen = driver.beats[-1].ranks[0]
    assert (seen.job, seen.epoch, seen.rank, seen.pid) == ("job", 2, 0, rank.pid)
    assert (seen.step, seen.loss, seen.tokens) == (4, 0.5, 10)
    assert seen.process in "RSD"
    assert seen.cpu_s > 0
    assert 0 < driver.beats[-1].pressure.memory_used < 1
    assert [nic.name for nic in driver.beats[-1].nics] == ["eth0"]


async def test_a_counter_and_a_ring_that_cannot_be_read_cost_no_heartbeat(
    driver: Any, daemon: Any, settings: Settings, rank: Any
) -> None:
    await eventually_async(lambda: driver.beats and driver.beats[-1].ranks, "the rank is told of")
    (settings.paths.sys / "class/net/eth0/statistics/tx_bytes").write_bytes(b"\xff\xfe")
    (settings.paths.sys / "class/net/eth0/carrier").write_bytes(b"9" * 5_000)
    (settings.paths.ring("job", 2, 1)).write_bytes(b"torn")
    heard = len(driver.beats)
    await eventually_async(lambda: len(driver.beats) > heard + 3, "heartbeats")
    last = driver.beats[-1]
    assert [seen.rank for seen in last.ranks] == [0]
    assert [nic.sent_bytes_per_s for nic in last.nics] == [0.0]
    assert len(driver.hellos) == 1, "by one connection"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_rank_that_dies_or_stops_is_told_at_once(
    driver: Any, daemon: Any, rank: Any, how: signal.Signals
) -> None:
    await eventually_async(lambda: driver.beats and driver.beats[-1].ranks, "the rank is told of")
    await beats_only_when_urgent(driver, daemon)
    os.kill(rank.pid, how)
    if how == signal.SIGKILL:
        rank.wait()
    state = "gone" if how == signal.SIGKILL else "T"

    def told() -> bool:
        urgent = [beat for beat in driver.beats if beat.urgent and beat.ranks]
        return any(beat.ranks[0].process == state for beat in urgent)

    await eventually_async(told, f"its state is {state}")
    if how == signal.SIGSTOP:
        await driver.say(WatchOrder(heartbeat_period_s=0.1))
        await eventually_async(lambda: driver.beats[-1].ranks[0].silent_s > 0.5, "no pulse")


async def test_an_xid_is_told_at_once_and_again_until_it_is_acknowledged(
    driver: Any, daemon: Any, settings: Settings
) -> None:
    await eventually_async(lambda: driver.beats, "a heartbeat")
    await beats_only_when_urgent(driver, daemon)
    driver.acknowledges = False
    line = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."
    with settings.paths.kernel_log.open("a") as log:
        log.write(f"usb 1-1: new device\n{line}\nNVRM: Xid (half a li")
    await eventually_async(lambda: any(b.urgent and b.logs for b in driver.beats), "it is told")
    (hit,) = driver.beats[-1].logs
    assert (hit.source, hit.xid, hit.line) == ("kernel", 79, line)
    driver.acknowledges = True
    await driver.say(WatchOrder(heartbeat_period_s=0.1))
    await eventually_async(lambda: not driver.beats[-1].logs, "it is over")
    assert sum(bool(beat.logs) for beat in driver.beats) >= 2


@pytest.mark.parametrize("kept", [0, -1])
async def test_a_driver_that_has_kept_nothing_yet_is_told_again_and_not_left(
    driver: Any, daemon: Any, settings: Settings, kept: int
) -> None:
    driver.kept = kept
    await eventually_async(lambda: driver.beats, "a heartbeat")
    with settings.paths.kernel_log.open("a") as log:
        log.write("NVRM: Xid (PCI:0000:3b:00): 79\n")
    await eventually_async(lambda: driver.beats and driver.beats[-1].logs, "it is told")
    heard = len(driver.beats)
    await eventually_async(lambda: len(driver.beats) > heard + 20, "many periods")
    assert all(beat.logs for beat in driver.beats[heard:])
    assert len(driver.hellos) == 1
    driver.kept = float("inf")
    await eventually_async(lambda: not driver.beats[-1].logs, "it is over")


class AMinuteLater(SystemClock):
    def monotonic_s(self) -> float:
        return super().monotonic_s() + 60.0


async def test_a_daemon_that_stood_still_does_not_leave_a_driver_that_has_kept_nothing_yet(
    driver: Any, daemon: Any
) -> None:
    driver.kept = 0
    await eventually_async(lambda: len(driver.beats) > 5, "heartbeats")
    daemon._clock = AMinuteLater()
    heard = len(driver.beats)
    await eventually_async(lambda: len(driver.beats) > heard + 5, "more of them")
    assert len(driver.hellos) == 1


async def test_a_link_that_goes_down_is_told_at_once(
    driver: Any, daemon: Any, settings: Settings
) -> None:
    await eventually_async(lambda: driver.beats and daemon._nics._up, "a heartbeat")
    await beats_only_when_urgent(driver, daemon)
    (settings.paths.sys / "class/net/eth0/carrier").write_text("0")
    await eventually_async(
        lambda: any(beat.urgent and not beat.nics[0].up for beat in driver.beats), "it is told"
    )


async def test_a_line_of_a_rank_is_told_at_once_and_the_daemon_after_this_one_is_silent_of_it(
    driver: Any, daemon: Any, settings: Settings, tmp_path: Path
) -> None:
    await eventually_async(lambda: driver.beats, "a heartbeat")
    await beats_only_when_urgent(driver, daemon)
    printed(settings, tmp_path, stdout="all is well\n", stderr="an uncorrectable ECC error\n")
    await eventually_async(lambda: any(beat.logs for beat in driver.beats), "it is told")
    (hit,) = next(beat.logs for beat in driver.beats if beat.logs)
    assert (hit.job, hit.epoch, hit.rank, hit.rule) == ("job", 2, 0, "ECC error")
    assert hit.line == "an uncorrectable ECC error"
    paths = settings.paths
    assert Outputs(paths.outputs, paths.outputs_read).hits(0.0) == []


async def test_a_driver_that_acknowledges_nothing_is_left_for_a_new_connection(
    driver: Any, daemon: Any
) -> None:
    driver.acknowledges = False
    await eventually_async(lambda: len(driver.hellos) >= 2, "it came again")
    driver.acknowledges = True
    heard = len(driver.beats)
    await eventually_async(lambda: len(driver.beats) > heard + 20, "heartbeats go on")
    await eventually_async(lambda: len(driver.connections) == 1, "the old one is closed")


async def test_what_it_is_to_do_is_the_newest_that_it_was_told(driver: Any, daemon: Any) -> None:
    await eventually_async(lambda: driver.beats, "a heartbeat")
    driver.acknowledges = False
    await driver.say(WatchOrder(heartbeat_period_s=3600.0, term=2, number=1))
    await eventually_async(lambda: daemon._period_s == 3600.0, "it follows")
    before_s = daemon._answered_s
    await driver.say(WatchOrder(heartbeat_period_s=0.1, term=1, number=9))
    await driver.say(Acknowledged(sequence=1))
    await eventually_async(lambda: daemon._answered_s > before_s, "it has heard all three")
    assert daemon._period_s == 3600.0


async def test_an_acknowledgement_that_comes_late_takes_nothing_back(
    driver: Any, daemon: Any
) -> None:
    await eventually_async(lambda: daemon._answered_at >= 3, "acknowledgements")
    driver.acknowledges = False
    await driver.say(Acknowledged(sequence=1))
    await beats_only_when_urgent(driver, daemon)
    assert daemon._answered_at >= 3


async def test_a_driver_that_is_away_is_waited_for(driver: Any, daemon: Any) -> None:
    await eventually_async(lambda: driver.beats, "a heartbeat")
    await driver.close()
    driver.beats.clear()
    await driver.open()
    await eventually_async(lambda: driver.beats, "heartbeats again")
    assert {hello.incarnation for hello in driver.hellos} == {"one"}


async def test_a_driver_that_refuses_is_asked_again(driver: Any, daemon: Any) -> None:
    driver.answer = Refused(what="protocol", why="version 1, this driver speaks 2", fix="Upgrade.")
    await eventually_async(lambda: len(driver.hellos) >= 3, "it asks again")
    assert driver.beats == []


def test_settings_that_are_missing_are_all_told_and_end_it(tmp_path: Any) -> None:
    with pytest.raises(BadSettings, match=r"HOLDFAST_NODE is not set.*HOLDFAST_MEMORY.*'x' is no"):
        read({"HOLDFAST_PROBE_PORT": "x"})
    ended = subprocess.run(
        [sys.executable, "-m", "holdfast.daemon.main"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == exitcodes.CONFIGURATION
    assert "HOLDFAST_NODE is not set: set it to the node's name." in ended.stderr


@pytest.fixture
async def process(driver: Any, settings: Settings) -> AsyncIterator[subprocess.Popen[bytes]]:
    """A daemon below us as below a host, once it beats; gone after the test."""
    environment = {
        **os.environ,
        "HOLDFAST_NODE": settings.node,
        "HOLDFAST_NODE_ADDRESS": settings.address,
        "HOLDFAST_DRIVER_URL": ",".join(settings.driver_urls),
        "HOLDFAST_NODE_TOKEN_FILE": str(settings.token_file),
        "HOLDFAST_SCRATCH": str(settings.paths.scratch),
        "HOLDFAST_MEMORY": str(settings.paths.memory),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast.daemon.main"],
        env=environment,
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    try:
        await eventually_async(lambda: driver.beats, "heartbeats")
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()


async def test_as_a_process_it_needs_no_torch_and_ends_when_told(
    process: subprocess.Popen[bytes],
) -> None:
    maps = Path(f"/proc/{process.pid}/maps").read_text()
    assert "libtorch" not in maps
    process.terminate()
    assert await asyncio.to_thread(process.wait, DEADLINE_S) == 0


async def test_as_a_process_it_ends_when_its_host_is_gone(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    assert await asyncio.to_thread(process.wait, DEADLINE_S) == 0


async def test_the_last_words_of_one_that_has_to_end_are_heard_first(
    driver: Any, daemon: Any, settings: Settings, tmp_path: Path
) -> None:
    await eventually_async(lambda: driver.beats, "it is connected")
    await beats_only_when_urgent(driver, daemon)
    printed(settings, tmp_path, stdout="CUDA error: out of luck")
    await daemon.last_words()
    told = [hit.line for beat in driver.beats for hit in beat.logs]
    assert "CUDA error: out of luck" in told


async def test_a_driver_that_takes_nothing_holds_no_last_words_up(
    driver: Any, daemon: Any, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await eventually_async(lambda: driver.beats, "it is connected")
    await beats_only_when_urgent(driver, daemon)
    printed(settings, tmp_path, stdout="CUDA error: out of luck")
    monkeypatch.setattr("holdfast.daemon.loop.LAST_WORDS_S", 0.01)
    monkeypatch.setattr(daemon._link, "send", lambda _: asyncio.Event().wait())
    await asyncio.wait_for(daemon.last_words(), DEADLINE_S)


async def test_it_ends_though_its_last_words_meet_a_defect() -> None:
    class Defective:
        async def last_words(self) -> None:
            raise LookupError("a defect")

    told, running = asyncio.Event(), asyncio.create_task(asyncio.Event().wait())
    told.set()
    with pytest.raises(LookupError):
        await _end(Defective(), told, running)  # type: ignore[arg-type]
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_what_cannot_be_read_is_told_with_each_heartbeat_until_it_can(
    settings: Settings, driver: Any, daemon: Any
) -> None:
    counter = settings.paths.sys / "class/net/eth0/statistics/rx_bytes"
    counter.write_bytes(b"\xff\xfe")
    (settings.paths.rings / "job.e1.r0.ring").write_bytes(b"no ring" * 100)

    def said() -> tuple[str, ...]:
        return driver.beats[-1].unreadable if driver.beats else ()

    await eventually_async(lambda: len(said()) == 2, "both are told")
    assert said()[0].startswith(str(counter))
    assert said()[1].startswith("ring job.e1.r0.ring: ")
    counter.write_bytes(b"7\n")
    (settings.paths.rings / "job.e1.r0.ring").unlink()
    await eventually_async(lambda: said() == (), "it can be read again")
