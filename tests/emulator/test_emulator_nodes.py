"""An emulated node is as real as this machine allows, and nothing of it stays."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import threading
from contextlib import aclosing
from pathlib import Path

import pytest
from waiting import DEADLINE_S, eventually

from holdfast.driver.adapters.local_cluster import LocalCluster
from holdfast.keeper import processes
from holdfast.lab.emulator import cgroups
from holdfast.lab.emulator.inside import in_node, in_switch, path_in
from holdfast.lab.emulator.leftovers import look
from holdfast.lab.emulator.namespaces import Kind
from holdfast.protocol.paths import NodePaths

pytestmark = pytest.mark.cluster


EACH_KIND = pytest.mark.parametrize(
    "kind", [Kind.ROOT, Kind.USER] if os.geteuid() == 0 else [Kind.USER], ids=str
)


def present(emulator) -> dict[str, bool]:
    """By node, as the keeper says it to a client that asks now."""

    async def ask() -> dict[str, bool]:
        found: dict[str, bool] = {}
        facts = LocalCluster(emulator.socket).facts()
        async with asyncio.timeout(DEADLINE_S), aclosing(facts) as told:
            async for fact in told:
                found[fact.node] = fact.present
                if len(found) == 2:
                    return found
        return found

    return asyncio.run(ask())


def names(emulator, node) -> dict[str, str]:
    """Content of the node's /sys tree by path."""
    scratch = path_in(node, Path(node.folder) / "scratch")
    root = NodePaths(scratch, scratch).sys / "class"
    files = [path for path in root.rglob("*") if path.is_file()]
    shown = [path for path in files if not path.name.startswith(".")]
    return {str(path.relative_to(root)): path.read_text().strip() for path in shown}


@EACH_KIND
def test_a_node_has_its_own_network_processes_memory_and_disk(emulator):
    emulator.host(), emulator.host("node-2")
    state, node = emulator.state, emulator.node()
    assert "198.18.1.1/15" in in_node(state, node, "ip", "-brief", "address", "show", "eth0")
    assert emulator.host()["pid"] == 1
    seen = in_node(state, node, "sh", "-c", "ls -d /proc/[0-9]*").split()
    assert len(seen) < 10, "it sees its own processes only"
    assert "node-2" in in_node(state, node, "cat", "/etc/hosts")
    for inner in (node.memory, f"{node.folder}/scratch", "/dev/shm"):
        assert os.path.ismount(path_in(node, inner))
    path_in(node, node.memory).joinpath("kept").write_text("in this node")
    assert not Path(node.memory, "kept").exists(), "memory is the node's own"
    assert path_in(node, f"{node.folder}/scratch/kmsg").exists()
    with pytest.raises(OSError, match="No space left"):
        path_in(node, f"{node.folder}/scratch/big").write_bytes(bytes(257 << 20))
    assert {record.rack for record in state.nodes.values()} == {"rack-1", "rack-2"}
    assert "cpu cgroups" in state.kind
    if node.cgroup:
        inside = Path(node.cgroup, "cgroup.procs").read_text().split()
        assert str(node.host_pid) in inside
        assert len(inside) >= 3


@EACH_KIND
def test_a_cut_link_makes_a_node_absent_and_shows_in_its_counters(emulator):
    eventually(lambda: present(emulator) == {"node-1": True, "node-2": True}, "both are there")
    state, node = emulator.state, emulator.node()

    def shown(name: str) -> str | None:
        return names(emulator, node).get(name)

    port = "infiniband/emulated0/ports/1"
    eventually(lambda: shown(f"{port}/state") == "4: ACTIVE", "its port is up")
    eventually(lambda: int(shown(f"{port}/counters/port_xmit_data") or 0) > 0, "it sends")
    in_switch(state, "ip", "link", "set", node.switch_interface, "down")
    eventually(lambda: shown(f"{port}/state") == "1: DOWN", "its port is down")
    eventually(lambda: shown("net/eth0/carrier") == "0", "no carrier")
    eventually(lambda: present(emulator) == {"node-1": False, "node-2": True}, "it is absent")
    in_switch(state, "ip", "link", "set", node.switch_interface, "up")
    eventually(lambda: present(emulator)["node-1"], "it comes back with its link")
    eventually(lambda: shown("net/eth0/carrier_changes") == "2", "once down, once up")


def test_counters_are_those_of_the_link(emulator):
    emulator.host("node-2")
    node = emulator.node()
    script = "exec 3<>/dev/udp/198.18.1.2/9; for i in $(seq 200); do printf %01000d 0 >&3; done"

    def octets() -> int:
        return int(names(emulator, node).get("net/eth0/statistics/tx_bytes", 0))

    before = eventually(octets, "its counters are fed")
    subprocess_output = in_node(emulator.state, node, "bash", "-c", f"{script} 2>/dev/null || true")
    assert subprocess_output == ""
    eventually(lambda: octets() - before > 200_000, "what it sent is counted")

    def both_kinds_agree() -> bool:  # files are read one by one while they are written
        files = names(emulator, node)
        words = int(files["infiniband/emulated0/ports/1/counters/port_xmit_data"])
        return words == int(files["net/eth0/statistics/tx_bytes"]) // 4

    eventually(both_kinds_agree, "RDMA counts octets by four")


def test_a_lost_node_is_gone_whole_for_good_and_the_others_notice_nothing(emulator, is_gone):
    emulator.host()
    rank, other = emulator.rank(), emulator.host("node-2")
    eventually(lambda: present(emulator)["node-1"], "it is there")
    init = emulator.node().host_pid
    assert rank

    def outside() -> list[int]:
        marked = processes.marked(emulator.state.run_id, HOLDFAST_NODE="node-1")
        return [pid for pid in marked if processes.start_ticks(pid) is not None]

    eventually(lambda: len(outside()) >= 4, "init, executor, its rank, daemon")
    all_of_it = outside()
    os.kill(init, signal.SIGKILL)
    for pid in all_of_it:
        eventually(lambda pid=pid: is_gone(pid), "the kernel ended all of it")
    eventually(lambda: present(emulator) == {"node-1": False, "node-2": True}, "it is absent")
    eventually(
        lambda: "s1" not in in_switch(emulator.state, "ip", "-brief", "link"), "its link is gone"
    )
    emulator.kill()
    emulator.start()
    eventually(lambda: present(emulator) == {"node-1": False, "node-2": True}, "still so")
    assert emulator.node().lost
    assert emulator.host("node-2") == other


def test_a_lost_node_that_a_person_wants_used_again_has_been_repaired(emulator):
    before = emulator.host()
    os.kill(emulator.node().host_pid, signal.SIGKILL)
    eventually(lambda: present(emulator) == {"node-1": False, "node-2": True}, "it is absent")
    asyncio.run(LocalCluster(emulator.socket).trust("node-1"))
    eventually(lambda: present(emulator) == {"node-1": True, "node-2": True}, "it is back")
    eventually(lambda: emulator.host() != before, "its host is another one")
    assert not emulator.node().lost


def test_a_killed_keeper_finds_its_nodes_and_switch_again(emulator):
    before, switch = emulator.host(), emulator.state.switch_pid
    emulator.kill()
    emulator.start()
    assert emulator.host() == before
    assert emulator.state.switch_pid == switch
    eventually(lambda: present(emulator) == {"node-1": True, "node-2": True}, "both are there")


def test_a_killed_gateway_is_started_again(emulator):
    emulator.host()
    before = emulator.state.switch_pid
    os.kill(before, signal.SIGKILL)
    eventually(lambda: emulator.state.switch_pid not in (0, before), "another gateway")
    eventually(lambda: present(emulator) == {"node-1": True, "node-2": True}, "both are there")


def test_the_driver_is_reached_over_the_nodes_own_link(emulator):
    emulator.host()
    with socket.socket(socket.AF_UNIX) as driver:
        driver.bind(str(emulator.root / "driver.sock"))
        driver.listen()
        answering = threading.Thread(target=answer_once, args=(driver,), daemon=True)
        answering.start()
        ask = "exec 3<>/dev/tcp/198.18.0.1/7480; echo hello >&3; head -c 9 <&3"

        def asked() -> str:
            try:
                return in_node(emulator.state, emulator.node(), "bash", "-c", ask)
            except subprocess.CalledProcessError:
                return ""  # refused: the gateway does not listen yet

        assert eventually(asked, "the driver answers") == "HELLO\nbye"
        answering.join(DEADLINE_S)
    in_switch(emulator.state, "ip", "link", "set", "s1", "down")
    with pytest.raises(subprocess.CalledProcessError):
        in_node(emulator.state, emulator.node(), "timeout", "1", "bash", "-c", ask)


def answer_once(driver: socket.socket) -> None:
    connection, _ = driver.accept()
    connection.sendall(connection.recv(64).upper() + b"bye")
    connection.close()


@EACH_KIND
def test_what_is_left_is_seen_by_looking_and_nothing_is_left_after_the_end(emulator):
    for name in ("node-1", "node-2"):
        emulator.host(name), emulator.rank(name)
    run_id = emulator.state.run_id
    # A process that is about to become another program shows no mark for a moment.
    eventually(lambda: len(look(run_id, emulator.root).processes) >= 10, "keeper, gateway, 2 x 4")
    during = look(run_id, emulator.root)
    assert any(mount.endswith("node-1/memory") for mount in during.mounts)
    assert {"switch", "s1", "s2"} <= set(during.links)
    assert bool(during.cgroups) == bool(emulator.node().cgroup)
    emulator.stop()
    assert look(run_id, emulator.root).count == 0


def test_the_next_start_sweeps_what_a_massacre_left(emulator):
    emulator.host(), emulator.host("node-2")
    before = emulator.state
    emulator.kill()  # first: it would start another gateway
    dead = [before.switch_pid, before.nodes["node-1"].host_pid]
    for pid in dead:
        os.kill(pid, signal.SIGKILL)
    assert processes.wait_gone(dead, DEADLINE_S)
    emulator.start()
    eventually(lambda: present(emulator) == {"node-1": True, "node-2": True}, "both anew")
    assert emulator.node("node-2").host_pid != before.nodes["node-2"].host_pid


@EACH_KIND
def test_a_start_sweeps_the_cgroup_of_another_run_once_no_process_of_that_lives(emulator):
    run_id = f"other{os.getpid()}"
    group, _, why = cgroups.memory_parent(run_id)
    if group is None:
        pytest.skip(why)
    marked = os.environ | {processes.RUN_MARK: run_id}
    other = subprocess.Popen(["sleep", "1000"], env=marked)
    try:
        eventually(lambda: [*processes.marked(run_id)], "it shows its mark")
        emulator.stop()
        emulator.start()
        emulator.host()
        assert group.exists()
        other.kill()
        other.wait()
        emulator.stop()
        emulator.start()
        emulator.host()
        assert not group.exists()
    finally:
        other.kill()
        other.wait()
        with contextlib.suppress(OSError):
            group.rmdir()
