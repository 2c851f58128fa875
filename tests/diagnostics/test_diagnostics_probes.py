"""Probes that need no torch: what a quota leaves, and how many datagrams arrive."""

import threading
from pathlib import Path

import pytest
from ports import free_port
from waiting import DEADLINE_S

from holdfast.diagnostics.probes import Measured, cpus, datagrams, listening
from holdfast.protocol.messages import DiagnosticOrder, Rendezvous


def v1(group: str, quota: int, period: int) -> dict[str, str]:
    return {
        f"{group}/cpu.cfs_quota_us": str(quota),
        f"{group}/cpu.cfs_period_us": str(period),
    }


@pytest.mark.parametrize(
    ("files", "line", "left"),
    [
        (v1("cpu/a/b", 50_000, 100_000), "1:cpu:/a/b", 0.5),
        (v1("cpu/a", 50_000, 25_000), "1:cpu:/a/b", 2.0),
        (v1("cpu/a", -1, 25_000), "1:cpu:/a", None),
        ({"a/cpu.max": "150000 100000"}, "0::/a/b", 1.5),
        ({"a/cpu.max": "max 100000"}, "0::/a", None),
        ({}, "7:memory:/a", None),
    ],
)
def test_a_quota_is_found_in_the_own_cgroup_or_above(
    tmp_path: Path, files: dict[str, str], line: str, left: float | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    mine = tmp_path / "mine"
    mine.write_text(f"{line}\n3:pids:/\n")
    found = [quota for group in cpus.groups(mine, tmp_path) for quota in cpus.quotas(group)]
    assert min(found, default=None) == left


def test_this_machine_has_processors_to_use() -> None:
    found = cpus.run(DiagnosticOrder(id="d", test="cpus"), "n1")
    assert found.ok
    assert found.value
    assert " of one" in found.detail


@pytest.mark.parametrize(
    ("processors", "quota", "share"), [(128, None, 100.0), (64, None, 100.0), (64, 32.0, 50.0)]
)
def test_a_smaller_node_has_no_smaller_share(
    monkeypatch: pytest.MonkeyPatch, processors: int, quota: float | None, share: float
) -> None:
    monkeypatch.setattr(cpus.os, "sched_getaffinity", lambda _: set(range(processors)))
    monkeypatch.setattr(cpus, "groups", lambda *_: iter([cpus.CGROUPS]))
    monkeypatch.setattr(cpus, "quotas", lambda _: iter(() if quota is None else (quota,)))
    assert cpus.run(DiagnosticOrder(id="d", test="cpus"), "n1").value == share


def both(order: DiagnosticOrder) -> dict[str, Measured]:
    """What both ends say."""
    said: dict[str, Measured] = {}

    def end(node: str) -> None:
        said[node] = datagrams.run(order, node)

    ends = [threading.Thread(target=end, args=(node,)) for node in order.members]
    for each in ends:
        each.start()
    for each in ends:
        each.join(DEADLINE_S)
    return said


def pair() -> DiagnosticOrder:
    where = Rendezvous(address="127.0.0.1", port=free_port())
    return DiagnosticOrder(id="d", test="datagrams", members=("n1", "n2"), rendezvous=where)


def test_all_arrive_where_nothing_is_lost_and_both_ends_say_the_same() -> None:
    said = both(pair())
    assert said["n1"] == said["n2"]
    assert said["n1"].ok
    assert said["n1"].value == 100.0


def test_a_loss_one_way_is_told_by_both_ends_with_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = datagrams._send

    def lossy(socket, to, lines):  # type: ignore[no-untyped-def]
        class Lossy:
            sent = 0

            def sendto(self, data: bytes, to: tuple[str, int]) -> None:
                Lossy.sent += 1
                if Lossy.sent % 20:
                    socket.sendto(data, to)

        first = threading.current_thread().name == "first"
        return kept(Lossy() if first else socket, to, lines)

    monkeypatch.setattr(datagrams, "_send", lossy)
    order, said = pair(), {}
    ends = [
        threading.Thread(target=lambda: said.update(n1=datagrams.run(order, "n1")), name="first"),
        threading.Thread(target=lambda: said.update(n2=datagrams.run(order, "n2"))),
    ]
    for each in ends:
        each.start()
    for each in ends:
        each.join(DEADLINE_S)
    assert said["n1"] == said["n2"]
    assert said["n1"].value == 95.0
    assert said["n1"].detail == "n1 to n2 95.0 %, n2 to n1 100.0 %"


def test_a_port_that_another_has_says_nothing_of_the_link() -> None:
    order = pair()
    assert order.rendezvous is not None
    with listening(order.rendezvous):
        found = datagrams.run(order, "n1")
    assert found.ok is None
    assert "cannot serve on 127.0.0.1" in found.detail


def test_who_is_no_member_runs_nothing() -> None:
    assert datagrams.run(pair(), "n3").ok is None
