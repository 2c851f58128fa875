"""A job whose two ranks train with each other in pods, and what they left: lives, losses, pods.

Used by tests in which training must not be harmed. Ranks save to memory each step, to the store
seldom; what they compute is known here. Needs torch.
"""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from shipped_pair import apply_job
from waiting import eventually

from holdfast.kubeapi import paths
from holdfast.lab.kubernetes.plane import ControlPlane

RANKS = 2
SHARED = "/run/shared"
SCRIPT = f"""
import os, time
import torch
import torch.distributed as dist
from holdfast.checkpoint import Checkpointer
dist.init_process_group("gloo")
rank = dist.get_rank()
state = {{"w": torch.zeros(8, dtype=torch.float64)}}
checkpointer = Checkpointer.from_env()
step = checkpointer.restore(state) or 0
with open(f"{SHARED}/lives-{{rank}}", "a") as file:
    file.write(f"{{os.environ['HOLDFAST_EPOCH']}} {{os.getpid()}} {{step}}\\n")
while True:
    over = torch.tensor(float(os.path.exists("{SHARED}/over")))
    dist.all_reduce(over)
    if over:
        break
    step += 1
    change = torch.sin(state["w"] + step * (rank + 1))
    dist.all_reduce(change)
    state["w"] += change / 3
    checkpointer.save(step, state)
    with open(f"{SHARED}/losses-{{rank}}", "a") as file:
        file.write(f"{{step}} {{float(state['w'].sum()).hex()}}\\n")
    if os.path.exists(f"{SHARED}/kill-{{rank}}"):
        os.remove(f"{SHARED}/kill-{{rank}}")
        os.kill(os.getpid(), 9)
    time.sleep(0.1)
"""


class Life(NamedTuple):
    """Of a rank: which epoch, its process, and the step that it began from."""

    rank: int
    epoch: int
    pid: int
    step: int


class Pod(NamedTuple):
    """What must not change of a pod whose training is not touched."""

    name: str
    uid: str
    node: str
    restarts: int


class Training:
    """The job NAME in a namespace, as a person sees it. `shared`: a folder for its ranks."""

    def __init__(self, plane: ControlPlane, name: str, namespace: str, shared: Path) -> None:
        self._plane = plane
        self._name = name
        self._namespace = namespace
        self._shared = shared
        (shared / "store").mkdir(parents=True)

    def apply(self, **more: Any) -> None:
        volume = {
            "name": "shared", "mountPath": SHARED, "hostPath": {"path": str(self._shared)},
        }  # fmt: skip
        spec: dict[str, Any] = {"nodes": RANKS, "ranksPerNode": 1, **more}
        spec["command"] = ["python", "-u", "-c", SCRIPT]
        spec["checkpoint"] = {"storeUrl": f"file://{SHARED}/store", "storeIntervalSteps": 10_000}
        spec["pod"] = {"image": "holdfast-executor:1", "volumes": [volume]}
        apply_job(self._plane, self._name, self._namespace, **spec)

    def tell(self, what: str) -> None:
        """`over`, or `kill-RANK`."""
        (self._shared / what).touch()

    def status(self) -> dict[str, Any]:
        job = self._plane.read(paths.training_jobs(self._namespace, self._name))
        found: dict[str, Any] = job.get("status", {})
        return found

    def end(self) -> dict[str, Any]:
        """Let it come to its end. Its status then."""
        self.tell("over")
        over = ("Succeeded", "Failed")
        eventually(lambda: self.status().get("phase") in over, "it ends")
        return self.status()

    # ------------------------------------------------------------ what is there

    def pods(self) -> list[Pod]:
        """All of the job, those too that are to go."""
        labelled = f"?labelSelector=holdfast.dev/job={self._name}"
        found = self._plane.read(paths.pods(self._namespace) + labelled)["items"]
        return sorted(
            Pod(
                name=pod["metadata"]["name"],
                uid=pod["metadata"]["uid"],
                node=pod["spec"].get("nodeName", ""),
                restarts=sum(each["restartCount"] for each in _containers(pod)),
            )
            for pod in found
        )

    def nodes(self) -> set[str]:
        """Where its pods are."""
        return {pod.node for pod in self.pods()}

    def lives(self) -> list[Life]:
        """All that ranks ever had."""
        return [
            Life(rank, *map(int, line.split()))
            for rank in range(RANKS)
            for line in self._lines(f"lives-{rank}")
        ]

    def losses(self) -> list[tuple[int, str]]:
        """Step and loss as each rank wrote them, each time that it came to the step."""
        written = (line.split() for rank in range(RANKS) for line in self._lines(f"losses-{rank}"))
        return [(int(step), loss) for step, loss in written]

    def step(self) -> int:
        """The last that all ranks have written."""
        last = [self._lines(f"losses-{rank}")[-1:] for rank in range(RANKS)]
        return min(int(lines[0].split()[0]) if lines else 0 for lines in last)

    def trains_on(self) -> int:
        """Once all ranks are five steps further than they are: where they are."""
        began = max((step for step, _ in self.losses()), default=0)

        def further() -> int:
            return now if (now := self.step()) > began + 5 else 0

        return eventually(further, f"it trains on, beyond step {began}")

    def in_epoch_after(self, epoch: int) -> int:
        """Once all ranks live in a later epoch: the one."""

        def later() -> int:
            newest = [max((e for r, e, _, _ in self.lives() if r == n), default=0) for n in (0, 1)]
            return newest[0] if newest[0] == newest[1] > epoch else 0

        return eventually(later, f"all ranks live in an epoch after {epoch}")

    def _lines(self, name: str) -> list[str]:
        """Whole ones: the last may be half written."""
        file = self._shared / name
        return file.read_text().rpartition("\n")[0].splitlines() if file.exists() else []


def undisturbed(steps: int) -> list[str]:
    """The losses of the job that nobody disturbs, from step 1 on."""
    state, losses = torch.zeros(8, dtype=torch.float64), []
    for step in range(1, steps + 1):
        state += sum(torch.sin(state + step * (rank + 1)) for rank in range(RANKS)) / 3
        losses.append(float(state.sum()).hex())
    return losses


def check_losses(training: Training) -> None:
    """Every step was trained, and whoever came to it got the very same bits."""
    losses = training.losses()
    steps = max(step for step, _ in losses)
    assert {step for step, _ in losses} == set(range(1, steps + 1))
    right = undisturbed(steps)
    assert [each for each in losses if each[1] != right[each[0] - 1]] == []


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pod["status"].get("containerStatuses", [])
    return found
