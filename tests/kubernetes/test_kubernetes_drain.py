"""`kubectl drain`, and a notice of maintenance: the job saves, moves, and nobody is blamed.

One test plays it on emulated nodes with a driver that has the shipped role; the others read what it
left. Ranks train with each other and save to memory each step, to the store almost never.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from shipped_driver import entries_in, shipped_driver, state_in
from waiting import eventually

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Distrust
from holdfast.driver.core.state.model import Incident
from holdfast.driver.ports import Entry
from holdfast.kubeapi import paths
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.protocol.faults import Kind

pytestmark = [pytest.mark.kubernetes, pytest.mark.cluster, pytest.mark.torch]


JOB, NAMESPACE = "drained", "drained"
SHARED = "/run/shared"
TRAIN = f"""
import os, time
import torch
import torch.distributed as dist
from holdfast.checkpoint import Checkpointer
dist.init_process_group("gloo")
state = {{"w": torch.zeros(8)}}
checkpointer = Checkpointer.from_env()
step = checkpointer.restore(state) or 0
while True:
    over = torch.tensor(float(os.path.exists("{SHARED}/over")))
    dist.all_reduce(over)
    if over:
        break
    step += 1
    state["w"] += 1
    assert state["w"].tolist() == [step] * 8
    with open(f"{SHARED}/steps-{{dist.get_rank()}}", "a") as file:
        file.write(f"{{step}}\\n")  # before it is saved: one that is saved is not made again
    checkpointer.save(step, state)
    time.sleep(0.1)
"""


class Left(NamedTuple):
    """What the play left: the nodes before, after the drain and after the notice."""

    began: set[str]
    drained: str
    went_on: set[str]
    noticed: str
    ended: set[str]
    said: str
    status: dict[str, Any]
    steps: dict[str, list[int]]
    entries: list[Entry]
    nodes: list[dict[str, Any]]
    incidents: list[Incident]


class Play:
    """The job and its nodes, as a person sees them."""

    def __init__(self, plane: ControlPlane, shared: Path) -> None:
        self.plane = plane
        self.shared = shared

    def apply(self) -> None:
        mount = {"name": "shared", "mountPath": SHARED, "hostPath": {"path": str(self.shared)}}
        spec = {"nodes": 2, "ranksPerNode": 1, "command": ["python", "-u", "-c", TRAIN]}
        spec["checkpoint"] = {"storeUrl": f"file://{SHARED}/store", "storeIntervalSteps": 10_000}
        spec["pod"] = {"image": "holdfast-executor:1", "volumes": [mount]}
        document = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "TrainingJob"}
        document |= {"metadata": {"name": JOB, "namespace": NAMESPACE}, "spec": spec}
        self.plane.kubectl("apply", "-f", "-", input=json.dumps(document))

    def status(self) -> dict[str, Any]:
        job = self.plane.read(paths.training_jobs(NAMESPACE, JOB))
        found: dict[str, Any] = job.get("status", {})
        return found

    def nodes(self) -> set[str]:
        """Where its pods are that are to stay."""
        pods = self.plane.read(paths.pods(NAMESPACE))["items"]
        staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return {pod["spec"]["nodeName"] for pod in staying if "nodeName" in pod["spec"]}

    def steps(self) -> dict[str, list[int]]:
        found = sorted(self.shared.glob("steps-*"))
        return {each.name: [int(word) for word in each.read_text().split()] for each in found}

    def trains_on(self, since: int) -> int:
        """Once all ranks are five steps further than `since`: where they are."""

        def least() -> int:
            steps = self.steps()
            now = min((max(each) for each in steps.values() if each), default=0)
            return now if len(steps) == 2 and now > since + 5 else 0

        return eventually(least, f"it trains on, beyond step {since}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("drain")


@pytest.fixture(scope="module")
def play(plane: ControlPlane, folder: Path) -> Iterator[Play]:
    (shared := folder / "shared").mkdir()
    (shared / "store").mkdir()
    with shipped_driver(plane, folder, namespace=NAMESPACE, nodes=3):
        yield Play(plane, shared)


@pytest.fixture(scope="module")
def left(play: Play, folder: Path) -> Left:
    """Drain a node of the job; give it back; then annotate another one."""
    play.apply()
    kubectl = play.plane.kubectl
    at = play.trains_on(0)
    began = play.nodes()
    drained = sorted(began)[0]
    flags = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
    said = kubectl("drain", drained, *flags, within_s=130.0)
    at = play.trains_on(max(at, *map(max, play.steps().values())))
    went_on = play.nodes()
    kubectl("uncordon", drained)
    noticed = sorted(began - {drained})[0]
    kubectl("annotate", "node", noticed, "holdfast.dev/maintenance=new kernel")
    eventually(lambda: noticed not in play.nodes(), "it has left the other node")
    play.trains_on(max(at, *map(max, play.steps().values())))
    ended = play.nodes()
    (play.shared / "over").touch()
    eventually(lambda: play.status().get("phase") == "Succeeded", "it ends")
    nodes = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    kubectl("annotate", "node", noticed, "holdfast.dev/maintenance-")
    told = play.status(), play.steps(), entries_in(folder)
    incidents = [*state_in(folder).incidents.values()]
    return Left(began, drained, went_on, noticed, ended, said, *told, nodes, incidents)


def test_kubectl_drain_succeeds_by_itself_and_the_job_is_elsewhere(left: Left) -> None:
    assert f"node/{left.drained} drained" in left.said
    assert left.drained not in left.went_on
    assert len(left.went_on) == 2


def test_a_notice_of_maintenance_moves_it_too(left: Left) -> None:
    assert left.noticed not in left.ended
    assert len(left.ended) == 2


def test_no_step_is_lost_by_either(left: Left) -> None:
    stops = left.status["attempt"] - 1
    for rank, steps in left.steps.items():
        made = set(steps)
        assert made == set(range(1, max(steps) + 1)), rank
        assert len(steps) - len(made) <= stops, f"{rank}: at each what was under way, at most"


def test_nobody_is_blamed_and_no_restart_is_spent(left: Left) -> None:
    assert not [f for entry in left.entries for f in entry.effects if isinstance(f, Distrust)]
    for node in left.nodes:
        keys = {taint["key"] for taint in node["spec"].get("taints", ())}
        assert "holdfast.dev/distrusted" not in keys, node["metadata"]["name"]
    assert left.status.get("restarts", 0) == 0
    assert Kind.MAINTENANCE in {each.kind for each in left.incidents}
    assert not [each for each in left.incidents if each.evicted]


def test_the_story_says_who_wanted_it_and_what_was_done(left: Left) -> None:
    told = "; ".join(entry.why for entry in left.entries)
    assert f"{left.drained} is to be free within" in told
    assert f"{JOB} moves off {left.drained}: its last step is saved first" in told
    assert f"{left.noticed} is to be free: new kernel" in told
    ending = [entry for entry in left.entries if isinstance(entry.event, e.ExecutorEnding)]
    assert "evicted" in ending[0].event.why
