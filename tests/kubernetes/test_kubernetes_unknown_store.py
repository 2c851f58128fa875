"""A job in a pod waits, for its store does not have what it had; a person says where it begins.

By `holdfast resume` with a token of the cluster: on a real API server, with a driver that has the
shipped rights, a pod that trains, and a person who may edit the namespace.
"""

import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from shells import Shell
from shipped_driver import BASE, entries_in, shipped_driver
from shipped_pair import apply_job
from waiting import eventually

from holdfast.checkpoint import layout
from holdfast.driver.core.events import CheckpointStored
from holdfast.kubeapi import paths
from holdfast.lab.chaos.beginnings import by_themselves
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.cluster,
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

NAMESPACE, JOB = "unknown", "forgets"
SHARED = "/run/shared"
TRAINS = f"""
import os, pathlib, shutil, signal, time
import torch
from holdfast import telemetry
from holdfast.checkpoint import Checkpointer

shared = pathlib.Path("{SHARED}")
checkpointer = Checkpointer.from_env()
state = {{"w": torch.zeros(1_000)}}
begun = step = checkpointer.restore(state) or 0
with (shared / "starts").open("a") as starts:
    print(step, file=starts)
while not (shared / "enough").exists():
    step += 1
    telemetry.step(step)
    if step <= begun + 50:  # nothing is on its way to the store after that
        checkpointer.save(step, state)
    if (shared / "lose").exists():  # its memory, and then itself
        (shared / "lose").unlink()
        slots = os.environ["HOLDFAST_SLOTS"]
        shutil.rmtree(pathlib.Path(slots).rename(slots + ".lost"))
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
"""


class Play(NamedTuple):
    """The job as its people have it. `shared`: the folder that its pod shares with us."""

    plane: ControlPlane
    folder: Path
    shared: Path

    def status(self) -> dict[str, Any]:
        job = self.plane.read(paths.training_jobs(NAMESPACE, JOB))
        found: dict[str, Any] = job.get("status", {})
        return found

    def starts(self) -> list[int]:
        """The step from which each attempt began."""
        file = self.shared / "starts"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def began_after(self, attempts: int) -> bool:
        return len(self.starts()) > attempts

    def stored(self) -> list[int]:
        """Steps that the driver heard are in the store, oldest first."""
        events = [entry.event for entry in entries_in(self.folder)]
        return [event.step for event in events if isinstance(event, CheckpointStored)]

    def forgets(self) -> None:
        """Its store has nothing any more, and neither has its memory."""
        for folder in (self.shared / "store").rglob(f"*/{layout.MANIFEST}"):
            shutil.rmtree(folder.parent)
        (self.shared / "lose").touch()

    def resume(self, who: str, *words: str) -> tuple[int, str]:
        """`holdfast resume` as a service account of the namespace: exit code, and what it said."""
        shell = Shell(self.folder)
        token = self.plane.kubectl("-n", NAMESPACE, "create", "token", who).strip()
        shell.told = {"HOLDFAST_TOKEN": token}
        at = json.loads((self.folder / "driver" / "driver.json").read_text())["http"]
        done = shell.holdfast("resume", JOB, *words, "--driver", at)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def play(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    folder, shared = tmp_path_factory.mktemp("unknown"), tmp_path_factory.mktemp("shared")
    (shared / "store").mkdir()
    with shipped_driver(plane, folder, namespace=NAMESPACE, nodes=1):
        plane.kubectl("apply", "-f", str(BASE / "people.yaml"))
        for who in ("ada", "bob"):
            plane.kubectl("-n", NAMESPACE, "create", "serviceaccount", who)
        words = ("create", "rolebinding", "ada", "--clusterrole=holdfast-edit")
        plane.kubectl("-n", NAMESPACE, *words, f"--serviceaccount={NAMESPACE}:ada")
        volume = {"name": "shared", "mountPath": SHARED, "hostPath": {"path": str(shared)}}
        spec: dict[str, Any] = {"nodes": 1, "ranksPerNode": 1}
        spec["command"] = ["python", "-u", "-c", TRAINS]
        spec["checkpoint"] = {"storeUrl": f"file://{SHARED}/store", "storeIntervalSteps": 10}
        spec["pod"] = {"image": "holdfast-executor:1", "volumes": [volume]}
        apply_job(plane, JOB, NAMESPACE, **spec)
        made = Play(plane, folder, shared)
        eventually(lambda: made.status().get("phase") == "Running", "it runs")
        yield made


def test_a_job_that_waits_for_its_checkpoints_begins_where_a_person_says(play: Play) -> None:
    eventually(lambda: 50 in play.stored(), "a checkpoint is acknowledged")
    play.forgets()
    gone = "was in its store, and no step is found now"
    eventually(
        lambda: gone in play.status().get("message", ""), "its object says what it waits for"
    )
    code, said = play.resume("bob", "--from-start")
    assert code != 0
    assert "may not patch trainingjobs.holdfast.dev" in said
    code, said = play.resume("ada", "--from-step", "7")
    assert "step 7 is not among the checkpoints that are found" in said
    assert play.starts() == [0], "it waits still"

    code, said = play.resume("ada", "--from-start")
    assert code == 0, said
    eventually(lambda: len(play.starts()) == 2, "it begins")
    eventually(lambda: play.status()["phase"] == "Running", "it runs")
    assert play.starts() == [0, 0]
    assert by_themselves(entries_in(play.folder), JOB) == [], "a person wanted it"


def test_a_suspended_job_goes_on_where_a_person_says(play: Play) -> None:
    """Its object is patched, which the driver sees when it does, and the step is granted: in either
    order.
    """
    for number in range(1, 4):
        began = len(play.starts())
        eventually(lambda: play.status()["phase"] == "Running", "it trains")
        suspend = ("patch", "tj", JOB, "--type=merge", "-p", '{"spec": {"suspend": true}}')
        play.plane.kubectl("-n", NAMESPACE, *suspend)
        eventually(lambda: play.status()["phase"] == "Suspended", "it is suspended")
        code, said = play.resume("ada", "--from-start")
        assert code == 0, (number, said)
        eventually(partial(play.began_after, began), "it begins")
        assert set(play.starts()) == {0}, "it began where she said"
    assert by_themselves(entries_in(play.folder), JOB) == []
    (play.shared / "enough").touch()
    eventually(lambda: play.status()["phase"] == "Succeeded", "it ends")
