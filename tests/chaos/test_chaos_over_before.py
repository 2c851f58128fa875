"""A job that was over before its fault says nothing of the fault: it is played again, longer."""

import signal
from pathlib import Path
from random import Random

import pytest

from holdfast.lab.chaos.injectors import Done, rank
from holdfast.lab.chaos.play import Stage
from holdfast.lab.chaos.scenario import Expected, Scenario, Shape
from holdfast.lab.chaos.target import NotThere
from holdfast.lab.cluster import Lab

pytestmark = [pytest.mark.cluster, pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(300)]

STEPS = 12
EXPECTED = Expected(compares_losses=False)
ONE = Shape(nodes=1, standbys=0)
"""What is tried again, and what is not, does not hang on how many nodes there are."""


def test_a_fault_that_came_too_late_is_done_to_a_longer_job(tmp_path: Path) -> None:
    said, tries = list[str](), list[str]()

    def late_at_first(lab: Lab, job: str, rng: Random) -> Done:
        tries.append(lab.run.root.name)
        if len(tries) == 1:
            lab.finished(job, within_s=120.0)
            raise NotThere("not there within 10 s: a rank")
        return rank.signalled(signal.SIGKILL)(lab, job, rng)

    scenario = Scenario(1, "late", "a rank is killed, late", late_at_first, EXPECTED, shape=ONE)
    with Stage(tmp_path, steps=STEPS, seed=1, say=said.append) as stage:
        score = stage.play(scenario)
    assert score.passed, (score, said)
    first, second = (int(name.partition("-try-")[2] or 1) for name in tries)
    assert second == first + 1, "on a busy machine the first of all may be over before it is asked"
    told = said[first - 1]
    assert "over before the fault (not there within 10 s: a rank): again, with 4 times" in told


def test_what_is_not_there_in_a_job_that_goes_on_is_a_failure(tmp_path: Path) -> None:
    def nobody(lab: Lab, job: str, _rng: Random) -> Done:
        lab.ask("POST", f"/jobs/{job}/stop")
        raise NotThere("not there within 10 s: a rank")

    says = "a rank is killed that is not there"
    scenario = Scenario(1, "nobody", says, nobody, EXPECTED, shape=ONE, longer=100)
    stage = Stage(tmp_path, steps=STEPS, seed=1, say=lambda _: None)
    with stage, pytest.raises(NotThere, match=r"^not there within 10 s: a rank$"):
        stage.play(scenario)
