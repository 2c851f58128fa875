"""Trains on an emulated cluster, spoils a link in turns, and writes a trace."""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from holdfast.daemon.samplers.flows import EVERY_S, Flows
from holdfast.keeper.state import KeeperState, NodeRecord
from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors.loss import lose
from holdfast.lab.cluster import Lab
from holdfast.lab.emulator.inside import in_node, in_switch

JOB = "links"
STARTS_S = 120.0
LOST = 0.02
"""Share of packets."""
USUAL = (
    *("good:60", "slow:40", "good:30", "sends:40", "good:30", "loses:40"),
    *("good:30", "late:40", "good:30", "busy:40"),
)
TRAIN = """
import sys, time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
part = torch.nn.Parameter(torch.ones(int(sys.argv[1])))
optimizer = torch.optim.SGD([part], lr=1e-6)
while True:
    part.square().sum().backward()
    until_s = time.thread_time() + 0.03
    while time.thread_time() < until_s:
        pass
    time.sleep(0.1)
    dist.all_reduce(part.grad)
    optimizer.step()
    optimizer.zero_grad()
"""
EVERYWHERE = [
    *("python", "-m", "holdfast.workload.main", "--steps", "1000000"),
    *("--hidden", "256", "--tp", "1", "--pp", "1", "--dp", "4"),
]
"""The built-in workload, which reduces by all-to-all, and clips by a ring."""
SPIN = "while True: pass"
NEIGHBOURS = 3
"""Processes that spin while it is busy, each in a session of its own: Linux shares by session."""


def record(path: Path, phases: list[str], *, nodes: int, command: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-links-") as made, path.open("w") as file:
        folder = Path(made)
        (folder / "train.py").write_text(TRAIN)
        with Lab(folder / "lab", nodes=nodes) as lab:
            _start(lab, folder, nodes, command)
            for row in _watched(lab, [(name, float(s)) for name, s in map(_split, phases)]):
                print(json.dumps(row), file=file, flush=True)


def _split(phase: str) -> tuple[str, str]:
    name, _, seconds = phase.partition(":")
    return name, seconds


def _start(lab: Lab, folder: Path, nodes: int, command: list[str]) -> None:
    spec = {
        "nodes": nodes,
        "ranksPerNode": 1,
        "command": command,
        "workdir": str(folder),
    }
    kind = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "TrainingJob"}
    lab.ready(within_s=STARTS_S)
    lab.submit({**kind, "metadata": {"name": JOB}, "spec": spec})
    lab.until(lambda: _step(lab) > 0, "its ranks train", STARTS_S)


def _rows(lab: Lab) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = lab.ask("GET", f"/jobs/{JOB}/ranks")["ranks"]
    return rows


def _step(lab: Lab) -> int:
    return min((row.get("step", 0) for row in _rows(lab)), default=0)


def _watched(lab: Lab, phases: list[tuple[str, float]]) -> Iterator[dict[str, Any]]:
    """Rows of the trace, in order of time."""
    state, hosts = target.cluster(lab), target.hosts_of(lab, JOB)
    took_s = sum(seconds for _, seconds in phases) + EVERY_S
    found: list[dict[str, Any]] = []
    threads = [
        threading.Thread(target=_sampled, args=(state, host, row["pid"], took_s, found))
        for host, row in zip(hosts, _rows(lab), strict=True)
    ]
    for thread in threads:
        thread.start()
    began_s, times = time.time(), list[tuple[float, str, int]]()
    for name, seconds in phases:
        print(f"{name} for {seconds:g} s", file=sys.stderr)
        with _spoiled(state, hosts[1], name):
            until_s = time.time() + seconds
            while time.time() < until_s:
                times.append((time.time(), name, _step(lab)))
                time.sleep(1.0)
    for thread in threads:
        thread.join()
    for row in sorted(found, key=lambda each: float(each["at_s"])):
        at_s = row.pop("at_s")
        _, phase, step = max((each for each in times if each[0] <= at_s), default=times[0])
        yield {"at_s": round(at_s - began_s, 1), "phase": phase, "step": step, **row}


def _sampled(
    state: KeeperState, node: NodeRecord, pid: int, seconds: float, found: list[dict[str, Any]]
) -> None:
    """Within the node, as its daemon does."""
    words = ("-m", "holdfast.bench.links", "sample", str(pid), str(seconds))
    lines = in_node(state, node, sys.executable, *words).splitlines()
    found.extend({"node": node.name, **json.loads(line)} for line in lines)


def sample(pid: int, seconds: float) -> None:
    flows, until_s = Flows(lambda: [pid]), time.monotonic() + seconds
    while (now := time.monotonic()) < until_s:
        told = flows.sample(now)
        if told:
            print(json.dumps({"at_s": time.time(), "flows": msgspec.to_builtins(told)}), flush=True)
        time.sleep(0.5)


# ---------------------------------------------------------------- what is done to the link


@contextmanager
def _spoiled(state: KeeperState, node: NodeRecord, name: str) -> Iterator[None]:
    if name == "busy":
        words = [sys.executable, "-c", SPIN]
        spinning = [subprocess.Popen(words, start_new_session=True) for _ in range(NEIGHBOURS)]
        try:
            yield
        finally:
            for each in spinning:
                each.kill()
                each.wait()
        return
    SPOILS[name](state, node)
    try:
        yield
    finally:
        _mend(state, node)


def _sends(
    state: KeeperState, node: NodeRecord, rate: str = "100mbit", late: str = "100ms"
) -> None:
    in_node(state, node, "tc", "qdisc", "replace", "dev", node.interface, *_shape(rate, late))


def _slow(state: KeeperState, node: NodeRecord, rate: str = "100mbit", late: str = "100ms") -> None:
    _sends(state, node, rate, late)
    device = node.switch_interface
    in_switch(state, "tc", "qdisc", "replace", "dev", device, *_shape(rate, late))


def _shape(rate: str, late: str) -> tuple[str, ...]:
    return ("root", "tbf", "rate", rate, "burst", "32kb", "latency", late)


def _late(state: KeeperState, node: NodeRecord) -> None:
    _slow(state, node, "200mbit", "200ms")


def _loses(state: KeeperState, node: NodeRecord) -> None:
    """A fiftieth of what comes in."""
    lose(partial(in_node, state, node), node.interface, LOST)


def _loses_both(state: KeeperState, node: NodeRecord) -> None:
    """And of what it sends, on the way: its own kernel does not know of it."""
    _loses(state, node)
    lose(partial(in_switch, state), node.switch_interface, LOST)


def _mend(state: KeeperState, node: NodeRecord) -> None:
    for what in ("root", "clsact"):
        with suppress(subprocess.CalledProcessError):  # it was not there
            in_node(state, node, "tc", "qdisc", "del", "dev", node.interface, what)
        with suppress(subprocess.CalledProcessError):
            in_switch(state, "tc", "qdisc", "del", "dev", node.switch_interface, what)


SPOILS: dict[str, Callable[[KeeperState, NodeRecord], None]] = {
    "good": lambda state, node: None,
    "slow": _slow,
    "sends": _sends,
    "late": _late,
    "loses": _loses,
    "loses-both": _loses_both,
}
