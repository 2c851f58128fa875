"""What the emulator says where it cannot do something, and its counters as data."""

import subprocess
import sys

import pytest

from holdfast.lab.emulator import inside, namespaces
from holdfast.lab.emulator.counters import Link, files
from holdfast.lab.emulator.namespaces import Kind, Missing, best_kind
from holdfast.lab.emulator.nodes import address_of
from holdfast.protocol import exitcodes


def test_a_missing_tool_names_its_package(monkeypatch):
    monkeypatch.setattr(
        namespaces.shutil, "which", lambda tool, path: None if tool == "tc" else f"/sbin/{tool}"
    )
    with pytest.raises(Missing, match=r"`tc` is not installed. Install the package iproute2."):
        best_kind()


def test_another_system_is_told_in_one_sentence(monkeypatch, capsys):
    from holdfast.lab.emulator.main import main

    monkeypatch.setattr(sys, "platform", "darwin")
    code = main(["--state", "x", "--driver-socket", "y"])
    assert code == exitcodes.UNAVAILABLE
    assert capsys.readouterr().err == "The emulated cluster needs Linux; this is darwin.\n"


def test_without_namespaces_it_falls_back_to_loopback_and_says_why(monkeypatch):
    monkeypatch.setattr(namespaces, "_attempt", lambda kind: f"unshare: not permitted ({kind})")
    kind, why = best_kind()
    assert kind is Kind.LOOPBACK
    assert "not permitted" in why


@pytest.mark.cluster
def test_loopback_nodes_refuse_link_faults(tmp_path):
    from running_keeper import RunningKeeper

    emulator = RunningKeeper(
        tmp_path / "run", "--driver-socket", str(tmp_path / "d.sock"), "--kind", "loopback"
    )
    emulator.module = "holdfast.lab.emulator.main"
    try:
        emulator.start()
        assert emulator.host()["executor"]
        assert emulator.node().address == "127.0.0.1"
        with pytest.raises(inside.NotPossible, match="Run as root"):
            inside.in_switch(emulator.state, "true")
        assert emulator.stop() == exitcodes.OK
        assert emulator.left() == []
    finally:
        emulator.end()


def test_addresses_are_distinct_and_of_the_range_kept_for_benchmarks():
    addresses = [address_of(place) for place in range(1_000)]
    assert len(set(addresses)) == 1_000
    assert all(address.startswith("198.18.") for address in addresses)
    assert "198.18.0.1" not in addresses


def test_data_counters_are_octets_by_four_and_a_down_port_says_so():
    up = files("eth0", Link(4_003, 5, 8_000, 6, True, 0))
    assert up["infiniband/emulated0/ports/1/counters/port_xmit_data"] == "1000\n"
    assert up["infiniband/emulated0/ports/1/counters/port_rcv_data"] == "2000\n"
    assert up["net/eth0/operstate"] == "up\n"
    down = files("eth0", Link(up=False, carrier_changes=1))
    assert down["infiniband/emulated0/ports/1/state"] == "1: DOWN\n"
    assert down["infiniband/emulated0/ports/1/counters/link_downed"] == "1\n"


def test_a_refusal_of_ip_says_what_ip_said():
    with pytest.raises((subprocess.CalledProcessError, FileNotFoundError), match=r"ip|Cannot"):
        namespaces.ip(["link set nosuchlink up"])
