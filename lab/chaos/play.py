"""Plays scenarios: each a fresh laboratory, a training job, a fault in its middle, and a score.

Called by `chaos.main` and by the tests. Must not judge: `score` does.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Self

import msgspec

from holdfast.driver.ports import Entry
from holdfast.lab import losses
from holdfast.lab.chaos import moves, stored
from holdfast.lab.chaos.beginnings import by_themselves
from holdfast.lab.chaos.injectors import Done
from holdfast.lab.chaos.lost import steps_lost
from holdfast.lab.chaos.scenario import STORE_EVERY, WORKLOAD, Expected, Scenario, Shape
from holdfast.lab.chaos.score import Facts, Score, score
from holdfast.lab.chaos.target import NotThere
from holdfast.lab.cluster import Lab, Refused, TooLate
from holdfast.lab.losses import Losses

JOB = "chaos"
READY_WITHIN_S = 120.0
JOB_WITHIN_S = 600.0
RANKS = 4

Say = Callable[[str], None]

FAILURES = (TooLate, Refused, NotThere)
"""Why a job could not be brought as far as its fault, or to its end; the message says it."""
OVER_WITHIN_S = 30.0
"""A job whose ranks have ended: a busy driver may not know of it yet."""
TRIES, TIMES = 3, 4
"""So often is a job tried that is over before its fault, each time with so many times the steps."""


class OverBefore(NotThere):
    """A machine so busy that the job's last step was over before the fault could be done."""


class Stage:
    """Where scenarios are played. This one: an emulated cluster on this machine for each."""

    failures: tuple[type[Exception], ...] = FAILURES

    def __init__(self, root: Path, *, steps: int, seed: int, say: Say) -> None:
        self.root = root
        self.say = say
        self._steps = steps
        self._seed = seed
        self._undisturbed: Losses | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        """An emulated cluster is gone with its scenario."""

    def play(self, scenario: Scenario, run: int = 1) -> Score:
        """One injection and its score; each run has its own victim and moment. A job that was over
        before its fault is played again, longer.

        Raises `NotPossible`, or one of `failures`.
        """
        name = folder_of(scenario, run)
        for again in range(2, TRIES + 1):
            try:
                return self._played(scenario, run, name)
            except OverBefore as over:
                self.say(f"{scenario.name}: {over}: again, with {TIMES} times the steps")
            name = f"{folder_of(scenario, run)}-try-{again}"
            scenario = msgspec.structs.replace(scenario, longer=TIMES * scenario.longer)
        return self._played(scenario, run, name)

    def _played(self, scenario: Scenario, run: int, name: str) -> Score:
        undisturbed = self.left_alone(scenario)
        with self.lab(name, scenario) as lab:
            done = self._hurt(lab, scenario, Random(f"{self._seed}/{scenario.name}/{run}"))
            self.say(f"{scenario.name}: {done.said}")
            facts = self.facts(lab, scenario, done, undisturbed)
        for sentence in facts.wrong:
            self.say(f"{scenario.name}: {sentence}")
        return score(facts)

    def cannot(self, scenario: Scenario) -> str:
        """Why this one cannot be played here, where that is known without a try; else ""."""
        return stored.SERVERS[scenario.store].missing() if scenario.store else ""

    def lab(self, name: str, scenario: Scenario | None) -> AbstractContextManager[Lab]:
        """A fresh one, with a folder of its own; None: for a job that is left alone."""
        shape = scenario.shape if scenario else Shape()
        made: Callable[..., AbstractContextManager[Lab]] = Lab
        if scenario and scenario.store:
            made = partial(stored.laboratory, server=scenario.store)
        return made(
            self.root / name,
            nodes=shape.nodes,
            standbys=shape.spare,
            racks=shape.racks,
            gpus=shape.gpus,
        )

    def facts(self, lab: Lab, scenario: Scenario, done: Done, undisturbed: Losses) -> Facts:
        """What can be seen once the job is over."""
        phase, incidents, story = self.ended(lab)
        compares = scenario.expected.compares_losses
        equal = losses.equal_bitwise(losses.read(lab.run, JOB), undisturbed) if compares else None
        entries = lab.entries()
        return Facts(
            fault=scenario.name,
            expected=scenario.expected,
            done=done,
            phase=phase,
            incidents=incidents,
            story=story,
            wrong=wrong(entries, scenario.expected, done),
            meets=moves.meeting(entries, JOB),
            steps_lost=steps_lost(lab.run, JOB),
            loss_equal_bitwise=equal,
        )

    def ended(self, lab: Lab) -> tuple[str, list[dict[str, Any]], list[dict[str, Any]]]:
        """How the job ended, which incidents it had, and its story."""
        job = lab.finished(JOB, within_s=JOB_WITHIN_S)
        return job["phase"], lab.incidents(JOB), lab.story(JOB)["lines"]

    def left_alone(self, scenario: Scenario) -> Losses:
        """The losses of the job that nobody disturbs. A longer one that was trained for another
        scenario has them, too: how long it is to be changes no step of a job. None where there is
        nothing to compare.

        Raises one of `failures` where it ends badly.
        """
        if not scenario.expected.compares_losses:
            return Losses(by_step={})
        steps = self._steps * scenario.longer
        if self._undisturbed is None or self._undisturbed.last_step < steps:
            self._undisturbed = self._trained(steps)
        return losses.until(steps, self._undisturbed)

    def _trained(self, steps: int) -> Losses:
        self.say(f"reference: the job, left alone, {steps} steps")
        with self.lab(f"reference-{steps}", None) as lab:
            lab.ready(READY_WITHIN_S)
            lab.submit(training_job(JOB, steps=steps, folder=lab.run.root, shape=Shape()))
            job = lab.finished(JOB, within_s=JOB_WITHIN_S)
        if job["phase"] != "Succeeded":
            raise TooLate(f"the undisturbed job ended as {job['phase']}: {job['why']}")
        return losses.read(lab.run, JOB)

    def _hurt(self, lab: Lab, scenario: Scenario, rng: Random) -> Done:
        """Bring a job as far as the fault, and do that."""
        job = training_job(
            JOB,
            steps=self._steps * scenario.longer,
            folder=lab.run.root,
            shape=scenario.shape,
            script=scenario.script,
        )
        lab.ready(READY_WITHIN_S)
        if scenario.first is not None:
            scenario.first(lab, JOB, rng)
        lab.submit(job | {"spec": job["spec"] | scenario.spec})
        # between two saves as well as at one
        moment = self._steps // 3 + rng.randrange(STORE_EVERY)
        if scenario.at_once:
            return scenario.do(lab, JOB, rng)
        seen = lab.wait(JOB, lambda seen: (seen["step"] or 0) >= moment, within_s=JOB_WITHIN_S)
        if seen["phase"] == "Succeeded":
            raise OverBefore("the job was over before the fault")
        try:
            return msgspec.structs.replace(scenario.do(lab, JOB, rng), step=seen["step"])
        except NotThere as missing:
            if not _is_over(lab):
                raise
            raise OverBefore(f"the job was over before the fault ({missing})") from missing


def _is_over(lab: Lab) -> bool:
    """Whether the job has done all its steps, or is about to be known to have."""
    try:
        return bool(lab.finished(JOB, within_s=OVER_WITHIN_S)["phase"] == "Succeeded")
    except TooLate:
        return False


def folder_of(scenario: Scenario, run: int) -> str:
    """The name of the folder below the root in which it is played. Pure."""
    return scenario.name if run == 1 else f"{scenario.name}-{run}"


def wrong(entries: Sequence[Entry], expected: Expected, done: Done) -> list[str]:
    """What the journal has that may not be, in sentences."""
    said = by_themselves(entries, JOB, behind=expected.keeps_stored)
    if expected.must_leave:
        said += moves.wrong(entries, JOB, (done.node or "", *done.also))
    return said


def training_job(
    name: str, *, steps: int, folder: Path, shape: Shape, script: str = WORKLOAD
) -> dict[str, Any]:
    """The built-in workload, tensor by data parallel, or the `script` that a user made of it."""
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "nodes": shape.nodes,
            "ranksPerNode": RANKS // shape.nodes,
            "standbys": shape.standbys,
            "command": [sys.executable, "-m", script, "--steps", str(steps)],
            "workdir": str(folder),
            "env": {"CHAOS_BUGS": str(folder / "bugs" / name)},
            "topology": {"tp": 2, "dp": 2},
            "checkpoint": {"memoryIntervalSteps": 1, "storeIntervalSteps": STORE_EVERY},
        },
    }
