"""A defect that the operator meets in one job's affairs costs that job's status alone."""

from typing import Any

import pytest
from made_jobs import made_job
from made_objects import JOB

from holdfast.driver.adapters.kubernetes import jobs
from holdfast.driver.adapters.kubernetes.operator import Operator
from holdfast.driver.adapters.kubernetes.podbook import PodBook
from holdfast.driver.core.events import JobSubmitted
from holdfast.driver.core.state.model import Phase, State
from holdfast.kit.clock import SystemClock
from holdfast.protocol.faults import Kind


class Loop:
    """A core that notes what it is told."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.told: list[Any] = []
        self.post = self.told.append


class Objects:
    """One object for each job; that of `sick` meets a defect."""

    def owner(self, name: str) -> None:
        if name == "sick":
            raise KeyError("a defect of ours")


def state_of(*names: str) -> State:
    submitted = jobs.missing(JOB, None, "speech")
    assert isinstance(submitted, JobSubmitted)
    plan = submitted.plan
    return State(jobs={name: made_job(name, plan, phase=Phase.PENDING) for name in names})


@pytest.fixture
def operator() -> Any:
    return Operator(
        None,  # type: ignore[arg-type]
        Objects(),  # type: ignore[arg-type]
        loop=Loop(state_of()),  # type: ignore[arg-type]
        watch=None,  # type: ignore[arg-type]
        book=PodBook(),
        clock=SystemClock(),
    )


async def test_the_others_are_looked_at_and_the_driver_goes_on(operator: Any) -> None:
    operator.follow(state_of("sick", "sound"))
    assert len(operator.queue) == 2
    (found,) = operator._loop.told
    assert (found.finding.kind, found.finding.job) == (Kind.DEFECT, "sick")
    assert "the status of its TrainingJob may be an old one" in found.finding.summary


async def test_so_is_what_is_met_in_a_look(operator: Any) -> None:
    operator._loop.state = state_of("sick")
    for _ in range(2):
        await operator._bring_about("sick")
    assert [found.finding.job for found in operator._loop.told] == ["sick"]
