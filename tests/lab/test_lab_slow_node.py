"""A slow node of an emulated cluster: its ranks are what differs in the heat map, and are named."""

import json
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from shells import Shell
from waiting import DEADLINE_S, eventually

from holdfast.lab.cluster import Lab
from holdfast.lab.emulator import cgroups
from holdfast.page.draw import heat

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(400)]

NODES, RANKS_PER_NODE = 3, 2
SLOW = "node-3"
PROCESSORS = 0.12
WORK_MS = 8
TRAIN = f"""
import time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
part = torch.nn.Parameter(torch.ones(100))
optimizer = torch.optim.SGD([part], lr=1e-3)
for step in range(10_000_000):
    part.square().sum().backward()
    until = time.thread_time() + {WORK_MS} / 1e3
    while time.thread_time() < until:
        pass
    time.sleep(0.1)
    dist.all_reduce(part.grad)
    optimizer.step()
    optimizer.zero_grad()
"""


def asked(lab: Lab, *words: str) -> subprocess.CompletedProcess[str]:
    return Shell(lab.run.root).asked(*words, "--state", str(lab.run.root))


def answer(lab: Lab) -> dict[str, Any]:
    told = asked(lab, "heatmap", "--json")
    assert told.returncode == 0, told.stderr
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def outliers(lab: Lab) -> set[str]:
    """Nodes of the ranks that are marked."""
    return {each.node for each in heat.heat(answer(lab)).outliers}


def trains(lab: Lab, job: str) -> bool:
    rows = lab.ask("GET", f"/jobs/{job}/ranks")["ranks"]
    return bool(rows) and all(row.get("step", 0) > 20 for row in rows)


def test_the_ranks_of_a_slow_node_are_seen_and_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    spec = {
        "nodes": NODES,
        "ranksPerNode": RANKS_PER_NODE,
        "command": ["python", "train.py"],
        "workdir": str(tmp_path),
    }
    job = {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "speech"},
        "spec": spec,
    }
    with Lab(tmp_path / "lab", nodes=NODES) as lab:
        lab.ready(within_s=DEADLINE_S)
        name = lab.submit(job)
        lab.until(lambda: trains(lab, name), "it trains", DEADLINE_S)
        try:
            cgroups.slow(lab.run_id, SLOW, PROCESSORS)
        except (OSError, LookupError) as why:
            pytest.skip(f"no node can be made slow here: {why}")
        slow = {row["rank"] for row in answer(lab)["ranks"] if row["node"] == SLOW}
        assert len(slow) == RANKS_PER_NODE
        eventually(lambda: outliers(lab) == {SLOW}, "what differs is on the slow node")
        picture = tmp_path / "slow.svg"
        eventually(lambda: named(lab, picture, slow), "all of its ranks are named", DEADLINE_S)


def named(lab: Lab, picture: Path, slow: set[int]) -> bool:
    """Whether the picture names them, and nobody else."""
    assert asked(lab, "heatmap", "--svg", str(picture)).returncode == 0
    text = " ".join(ElementTree.parse(picture).getroot().itertext())
    told = {rank for rank in range(NODES * RANKS_PER_NODE) if f"rank {rank} on " in _words(text)}
    return told == slow


def _words(text: str) -> str:
    """Without what each cell says when it is pointed at."""
    return text.rpartition("named below")[2] or text
