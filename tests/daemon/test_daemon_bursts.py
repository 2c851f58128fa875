"""A daemon that is asked for a burst: it counts what really went over its rails."""

import socket
import threading
from contextlib import closing
from pathlib import Path

import pytest
from tests.daemon.conftest import FakeDriver
from waiting import eventually_async

from holdfast.daemon.bursts import sampler, taker
from holdfast.daemon.bursts.counters import Links, Ports
from holdfast.daemon.loop import Daemon
from holdfast.protocol.messages import AskBurst, BurstTaken
from holdfast.traces.bursts.record import MOST_RAILS, decode


def port(root: Path, name: str, **counts: int) -> Path:
    """An RDMA port of a /sys tree."""
    folder = root / "class" / "infiniband" / name / "ports" / "1" / "counters"
    folder.mkdir(parents=True)
    for counter, count in counts.items():
        (folder / counter).write_text(f"{count}\n")
    return folder


def test_links_are_those_of_the_machine_as_the_kernel_counts_them() -> None:
    names = {name for _, name in socket.if_nameindex()} - {"lo"}
    with closing(Links()) as links:
        found = links.look()
    assert set(links.names) == set(found) == names
    for name, (received, sent, _, _) in found.items():
        folder = Path("/sys/class/net") / name / "statistics"
        assert int((folder / "rx_bytes").read_text()) >= received
        assert int((folder / "tx_bytes").read_text()) >= sent
    with closing(Links("nowhere0")) as none:
        assert none.look() == {}


def test_a_port_counts_four_octets_each_and_what_it_has_no_file_for_is_zero(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0", port_rcv_data=10, port_xmit_data=20, port_rcv_errors=3)
    port(tmp_path, "mlx5_1", port_rcv_data=1)
    with closing(Ports(tmp_path)) as ports:
        assert ports.look() == {"mlx5_0/1": (40, 80, 3, 0)}


def test_a_sampler_says_what_it_missed_and_what_it_left_out(tmp_path: Path) -> None:
    for at in range(MOST_RAILS + 2):
        port(tmp_path, f"mlx5_{at}", port_rcv_data=0, port_xmit_data=0)
    burst = sampler.sample("node-1", 0.2, "nowhere0", tmp_path)
    assert len(burst.rails) == MOST_RAILS
    assert "2 more rails were left out: mlx5_8/1, mlx5_9/1." in burst.degraded
    assert len(burst.at_us) + burst.missed == 201
    assert ("too busy" in burst.degraded) == (burst.missed > 10)
    assert all(len(rail.sent) == len(burst.at_us) - 1 for rail in burst.rails)


def test_what_comes_after_its_end_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look takes longer than all that is to be looked at."""
    monkeypatch.setattr(Ports, "look", lambda _: threading.Event().wait(0.05) or {})
    burst = sampler.sample("node-1", 0.02, "nowhere0", tmp_path)
    assert (len(burst.at_us), burst.missed) == (1, 20)


async def test_a_daemon_takes_a_burst_and_goes_on_meanwhile(
    daemon: Daemon, driver: FakeDriver
) -> None:
    await eventually_async(lambda: driver.beats, "it speaks")
    assert driver.hellos[0].bursts
    before = len(driver.beats)
    await driver.say(AskBurst(id="one", seconds=0.3))
    await driver.say(AskBurst(id="two", seconds=0.3))
    taken = driver.others
    await eventually_async(lambda: len(taken) == 2, "both are answered")
    refused, counted = sorted(taken, key=lambda each: len(each.data))
    assert isinstance(counted, BurstTaken)
    assert (refused.id, refused.why) == ("two", "another burst is being taken there")
    assert decode(counted.data).seconds == 0.3
    assert len(driver.beats) > before


async def test_a_sampler_that_cannot_count_says_why(
    daemon: Daemon, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taker, "_SAMPLER", "holdfast.no.such.module")
    await eventually_async(lambda: driver.beats, "it speaks")
    await driver.say(AskBurst(id="one", seconds=0.3))
    await eventually_async(lambda: driver.others, "it is answered")
    [told] = driver.others
    assert "no" in told.why
    assert told.data == b""
