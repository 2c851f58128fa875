"""Plays one scenario: a fresh laboratory, a training job, a fault in its middle, and its score.

Called by `chaos.main` and by the tests. Must not judge: `score` does.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from holdfast.lab import losses
from holdfast.lab.chaos.lost import steps_lost
from holdfast.lab.chaos.scenarios import STORE_EVERY, Expected, Scenario
from holdfast.lab.chaos.score import Facts, Score, score
from holdfast.lab.cluster import Lab, TooLate
from holdfast.lab.losses import Losses

NODES, STANDBYS, RANKS_PER_NODE = 2, 1, 2
JOB = "chaos"
READY_WITHIN_S = 120.0
JOB_WITHIN_S = 300.0

Say = Callable[[str], None]


def training_job(name: str, *, steps: int, folder: Path, buggy: bool) -> dict[str, Any]:
    """The built-in workload, tensor by data parallel, with or without a user's bug in it."""
    module = "holdfast.lab.chaos.scripts.buggy" if buggy else "holdfast.workload.main"
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "nodes": NODES,
            "ranksPerNode": RANKS_PER_NODE,
            "standbys": STANDBYS,
            "command": [sys.executable, "-m", module, "--steps", str(steps)],
            "workdir": str(folder),
            "env": {"CHAOS_BUGS": str(folder / "bugs" / name)},
            "topology": {"tp": 2, "dp": 2},
            "checkpoint": {"memoryIntervalSteps": 1, "storeIntervalSteps": STORE_EVERY},
        },
    }


def reference(folder: Path, *, steps: int, say: Say) -> Losses:
    """The losses of the job that nobody disturbs. Raises `TooLate` where it does not end well."""
    say("reference: the job, left alone")
    with _lab(folder) as lab:
        _start(lab, steps=steps, buggy=False)
        job = lab.finished(JOB, within_s=JOB_WITHIN_S)
    if job["phase"] != "Succeeded":
        raise TooLate(f"the undisturbed job ended as {job['phase']}: {job['why']}")
    return losses.read(lab.run, JOB)


def play(
    scenario: Scenario, folder: Path, *, steps: int, seed: int, undisturbed: Losses, say: Say
) -> Score:
    """One injection and its score."""
    rng = Random(f"{seed}/{scenario.name}")
    with _lab(folder) as lab:
        _start(lab, steps=steps, buggy=scenario.buggy)
        # between two saves as well as at one
        moment = steps // scenario.longer // 3 + rng.randrange(STORE_EVERY)
        lab.wait(JOB, lambda job: (job["step"] or 0) >= moment, within_s=JOB_WITHIN_S)
        done = scenario.do(lab, JOB, rng)
        say(f"{scenario.name}: {done.said}")
        job = lab.finished(JOB, within_s=JOB_WITHIN_S)
        incidents, story = lab.incidents(JOB), lab.story(JOB)["lines"]
    return score(
        Facts(
            fault=scenario.name,
            expected=scenario.expected,
            done=done,
            phase=job["phase"],
            incidents=incidents,
            story=story,
            steps_lost=steps_lost(lab.run, JOB),
            loss_equal_bitwise=_equal(scenario.expected, lab, undisturbed),
        )
    )


def _lab(folder: Path) -> Lab:
    return Lab(folder, nodes=NODES, standbys=STANDBYS, racks=2)


def _start(lab: Lab, *, steps: int, buggy: bool) -> None:
    lab.ready(READY_WITHIN_S)
    lab.submit(training_job(JOB, steps=steps, folder=lab.run.root, buggy=buggy))


def _equal(expected: Expected, lab: Lab, undisturbed: Losses) -> bool | None:
    if not expected.compares_losses:
        return None
    return losses.equal_bitwise(losses.read(lab.run, JOB), undisturbed)
