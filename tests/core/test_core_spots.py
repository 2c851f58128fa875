"""Standstills at one place of a script: counted with the job, and in the end the script's own."""

from typing import Any

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.model import Phase
from holdfast.protocol.faults import Blame, Finding, Kind, Weight

SPOT = "evaluate (train.py:31), step 50"
FIX = "A longer pauseMaxS (`holdfast run --pause-max`) gives it more time."


def stands_still(life: Any, spot: str, *, rank: int | None = 2) -> None:
    job = life.job
    named = {"node": "n1", "rank": rank} if rank is not None else {}
    life.do(
        e.Found(
            finding=Finding(
                kind=Kind.HANG if named else Kind.NO_PROGRESS,
                weight=Weight.RESTART,
                job=job.name,
                epoch=job.epoch,
                step=50,
                summary="rank 2 holds the job up" if named else "no progress",
                spot=spot,
                fix=FIX,
                **named,
            )
        )
    )
    incident = life.job.incident
    life.do(e.StacksTaken(job=job.name, incident=incident, stacks={2: "evaluate (train.py:31)"}))


def runs_again(life: Any) -> None:
    life.answer()
    if life.phase is Phase.DIAGNOSING:
        life.tests_end()
        life.answer()
    assert life.job.seated


@pytest.mark.parametrize("rank", [2, None])
def test_the_fourth_standstill_at_one_spot_ends_the_job_by_the_users_budget(
    training: Any, rank: int | None
) -> None:
    life = training()
    for times in (1, 2, 3):
        stands_still(life, SPOT, rank=rank)
        assert life.job.spots == {SPOT: times}
        assert not life.job.finished
        runs_again(life)
    stands_still(life, SPOT, rank=rank)
    assert life.job.phase is Phase.FAILED
    assert "4 times" in life.job.failure.reason
    assert life.job.failure.reason.endswith(FIX)
    assert life.job.failure.traceback == "Stack of rank 2:\nevaluate (train.py:31)"
    assert list(life.state.incidents.values())[-1].blame is Blame.USER


def test_standstills_elsewhere_are_counted_apart(training: Any) -> None:
    life = training()
    for step in (50, 61, 75):
        stands_still(life, f"evaluate (train.py:31), step {step}")
        runs_again(life)
    assert set(life.job.spots.values()) == {1}


def test_a_stop_from_outside_has_no_spot(training: Any) -> None:
    life = training()
    stands_still(life, "")
    assert life.job.spots == {}
