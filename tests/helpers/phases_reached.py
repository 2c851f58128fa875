"""A job on two emulated nodes brought into each phase of its life, and kept there.

Used by tests of what can happen to a job in any phase. Each way is one that the world has: nodes
that are missing, an image that nobody pushed, ranks that do not end, a process that stands still.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from waiting import eventually

from holdfast.driver.adapters.kubernetes import names
from holdfast.driver.adapters.sql.sqlite import read_only
from holdfast.driver.core.state.model import Phase, State
from holdfast.driver.formats.encode import decode
from holdfast.driver.settings import Settings
from holdfast.keeper import processes
from holdfast.kubeapi import paths
from holdfast.lab.emulator.kubelet.joined import Joined
from holdfast.lab.kubernetes.plane import ControlPlane

FOR_EVER = ["python", "-c", "import time\nwhile True: time.sleep(0.1)"]
SHARED = "/run/shared"
"""Where pods have the folder that the test has."""
DEAF = f"""
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(f"{SHARED}/deaf-{{os.environ['RANK']}}", "w").close()
while True: time.sleep(0.1)
"""
GRACE_S = 15
"""Of ranks that do not hear SIGTERM: so long their job is Suspending."""
RANKS = 4

HOLDS = f"import os, time\nwhile os.path.exists('{SHARED}/hold'): time.sleep(0.05)\n"
"""Run by each Python that the job starts anew, before anything else."""

OVER = "2026-01-01T00:00:00Z"

Object = dict[str, Any]


class Stage:
    """The nodes and their jobs, as a person sees them; and what the driver has written down."""

    def __init__(self, plane: ControlPlane, nodes: Joined, folder: Path, namespace: str) -> None:
        self.plane = plane
        self.nodes = nodes
        self.namespace = namespace
        self.paths = Settings(state=folder / "driver").paths
        self.shared = folder / "shared"
        self.shared.mkdir()
        (self.shared / "sitecustomize.py").write_text(HOLDS)

    def kubectl(self, *words: str, **more: Any) -> str:
        return self.plane.kubectl("-n", self.namespace, *words, **more)

    def made(self, job: str, command: list[str], **more: Any) -> None:
        mount = {"name": "shared", "mountPath": SHARED, "hostPath": {"path": str(self.shared)}}
        pod = {"image": "holdfast-executor:1", "volumes": [mount], **more.pop("pod", {})}
        spec = {"nodes": 2, "ranksPerNode": 2, "command": command, "pod": pod, **more}
        document = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "TrainingJob"}
        document |= {"metadata": {"name": job}, "spec": spec}
        self.plane.apply(paths.training_jobs(self.namespace, job), document)

    def runs(self, job: str, **more: Any) -> None:
        """Have it made, and return once it runs."""
        self.made(job, FOR_EVER, **more)
        eventually(lambda: self.phase(job) == "Running", f"{job} runs")

    def suspend(self, job: str) -> None:
        self.plane.patch(paths.training_jobs(self.namespace, job), {"spec": {"suspend": True}})

    def object(self, job: str) -> Object:
        return self.plane.read(paths.training_jobs(self.namespace, job))

    def phase(self, job: str) -> str:
        return str(self.object(job).get("status", {}).get("phase", ""))

    def state(self) -> State:
        """What the driver has written down."""
        journal, _ = read_only(self.paths.journal)
        try:
            encoded = journal.load()[0]
        finally:
            journal.close()
        assert encoded is not None
        return decode(encoded)

    def asked(self, path: str) -> None:
        """A request of whoever has the driver's folder."""
        url = json.loads(self.paths.address.read_text())["http"]
        headers = {"Authorization": f"Bearer {self.paths.user_token.read_text().strip()}"}
        with httpx.Client(trust_env=False, verify=False, headers=headers, timeout=60) as person:
            answer = person.post(f"{url}/v1alpha1/{path}")
        assert answer.status_code == 202, answer.text

    # ------------------------------------------------------------ its processes

    def named(self, name: str) -> list[int]:
        """Processes of the nodes by the name that `ps` has for them."""
        return [pid for pid in processes.marked(self.nodes.run_id) if _name(pid) == name]

    def launchers(self) -> list[int]:
        """What ranks and diagnostics are forked from, one on each node, once each rank has a name
        of its own: it runs before it has.
        """
        return eventually(self._launchers, "all ranks have their names")

    def _launchers(self) -> list[int]:
        """None while a child of one is still called as it is."""
        called = {pid: _name(pid) for pid in processes.marked(self.nodes.run_id)}
        ranks = [name for name in called.values() if name.startswith("rank-")]
        pythons = [pid for pid, name in called.items() if name == "python"]
        found = [pid for pid in pythons if b"launcher.main" in processes.command_of(pid)]
        return found if (len(ranks), len(found)) == (RANKS, 2) else []


def _name(pid: int) -> str:
    """As `ps` has it: Python's own for what has none given."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
    return "python" if name.startswith("python") else name


# ---------------------------------------------------------------- the way into each phase

Way = Callable[[Stage, str], Iterator[None]]
"""Does what leads there, yields while the job is there, and takes back what was done to others."""


def _pending(stage: Stage, job: str) -> Iterator[None]:
    stage.made(job, FOR_EVER, nodes=3)
    yield


def _allocating(stage: Stage, job: str) -> Iterator[None]:
    stage.made(job, FOR_EVER, pod={"image": "nobody/pushed-it:1"})
    yield


def _starting(stage: Stage, job: str) -> Iterator[None]:
    (hold := stage.shared / "hold").touch()
    stage.made(job, FOR_EVER, env={"PYTHONPATH": SHARED})
    yield
    hold.unlink()


def _running(stage: Stage, job: str) -> Iterator[None]:
    stage.runs(job)
    yield


def _suspending(stage: Stage, job: str) -> Iterator[None]:
    stage.made(job, ["python", "-c", DEAF], timeouts={"graceS": GRACE_S})
    eventually(lambda: len([*stage.shared.glob("deaf-*")]) == RANKS, "no rank hears SIGTERM")
    stage.suspend(job)
    yield


def _diagnosing(stage: Stage, job: str) -> Iterator[None]:
    stage.runs(job)
    with _standing_still(stage.launchers()):
        _said_of(stage, "node-1", "True")
        yield
    _said_of(stage, "node-1", "False")


def _replacing(stage: Stage, job: str) -> Iterator[None]:
    stage.runs(job)
    why, by = names.MAINTENANCE, names.MAINTENANCE_BY
    stage.plane.kubectl("annotate", "node", "node-2", f"{why}=new kernel", f"{by}={OVER}")
    yield
    stage.plane.kubectl("annotate", "node", "node-2", f"{why}-", f"{by}-")


def _restoring(stage: Stage, job: str) -> Iterator[None]:
    stage.runs(job)
    with _standing_still(stage.launchers()), _standing_still(stage.named("spare")):
        (rank,) = stage.named("rank-0")
        os.kill(rank, signal.SIGKILL)
        yield


def _suspended(stage: Stage, job: str) -> Iterator[None]:
    stage.runs(job)
    stage.suspend(job)
    yield


def _succeeded(stage: Stage, job: str) -> Iterator[None]:
    stage.made(job, ["true"])
    yield


def _failed(stage: Stage, job: str) -> Iterator[None]:
    stage.made(job, ["false"], recovery={"user": {"restarts": 0}})
    yield


def _stopped(stage: Stage, job: str) -> Iterator[None]:
    stage.runs(job)
    stage.asked(f"jobs/{job}/stop")
    yield


@contextmanager
def _standing_still(pids: list[int]) -> Iterator[None]:
    """Whoever asks them for a fork waits for it, for 20 s at most: then they are killed."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            processes.kill(pid, signal.SIGCONT)


def _said_of(stage: Stage, node: str, status: str) -> None:
    """As a problem detector says it: a reason to test the node."""
    said = {"type": "KernelDeadlock", "status": status, "reason": "Tests", "message": "by a test"}
    patch = json.dumps({"status": {"conditions": [said]}})
    stage.plane.kubectl("patch", "node", node, "--subresource=status", "-p", patch)


WAYS: dict[Phase, Way] = {
    Phase.PENDING: _pending,
    Phase.ALLOCATING: _allocating,
    Phase.STARTING: _starting,
    Phase.RUNNING: _running,
    Phase.SUSPENDING: _suspending,
    Phase.DIAGNOSING: _diagnosing,
    Phase.REPLACING: _replacing,
    Phase.RESTORING: _restoring,
    Phase.SUSPENDED: _suspended,
    Phase.SUCCEEDED: _succeeded,
    Phase.FAILED: _failed,
    Phase.STOPPED: _stopped,
}
