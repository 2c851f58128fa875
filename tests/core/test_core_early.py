"""A rank that ends with exit code 0 while its peers still need it: the user's, and named."""

from collections.abc import Callable

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Phase
from holdfast.protocol.faults import Blame, Kind


def leaves(life, rank: int, *, step: int | None = 10) -> None:
    life.dies(rank, code=0, own_step=step)


def test_who_left_early_is_named_by_the_death_of_those_that_needed_it(training) -> None:
    life = training()
    leaves(life, 1)
    assert (life.phase, life.state.incident_count) == (Phase.RUNNING, 0), "no fault by itself"
    life.dies(0, echo=True, exception="RuntimeError", step=10, judged=False)
    life.dies(3, echo=True, exception="RuntimeError", step=10)
    incident = life.incident
    assert (incident.kind, incident.blame) == (Kind.ENDED_EARLY, Blame.USER)
    assert (incident.rank, incident.node, incident.rung) == (1, "n0", 1)
    said = "rank 1 on n0 ended with exit code 0 after step 10 while others train (uneven data?)"
    assert incident.summary == said
    assert incident.evidence[0].text == said
    assert len(incident.evidence) == 3
    assert life.paid == [Blame.USER]
    assert life.blamed("n0") == []


def test_it_is_paid_from_the_users_budget(training) -> None:
    life = training(user=e.Budget(restarts=0, window_s=3600))
    leaves(life, 1)
    life.dies(0, echo=True, exception="RuntimeError")
    assert life.phase is Phase.FAILED
    assert life.job.failure.reason.startswith("rank 1 on n0 ended with exit code 0 after step 10")


CAUSES: dict[str, Callable] = {
    "an exception": lambda life: life.dies(2, exception="ValueError", judged=False),
    "a signal": lambda life: life.dies(2, signal=11, judged=False),
    "an exit code": lambda life: life.dies(2, code=3, judged=False),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_death_of_its_own_is_the_cause_whoever_left_before(training, cause: str) -> None:
    life = training()
    leaves(life, 1)
    life.dies(0, echo=True, exception="RuntimeError", judged=False)
    CAUSES[cause](life)
    life.wait(until_s=life.now + life.policy.echo_s)
    assert (life.incident.rank, life.incident.node) == (2, "n1")


def test_who_leaves_after_it_lost_a_peer_is_no_cause(training) -> None:
    life = training()
    life.dies(0, echo=True, exception="RuntimeError", judged=False)
    leaves(life, 1)
    life.wait(until_s=life.now + life.policy.echo_s)
    assert (life.incident.kind, life.incident.rank) == (Kind.RANK_CRASHED, None)


def test_ranks_that_end_one_after_another_are_a_job_that_is_done(training) -> None:
    life = training()
    for rank in (3, 1, 2):
        leaves(life, rank)
        life.wait(until_s=life.now + 60)
    assert (life.phase, life.state.incident_count) == (Phase.RUNNING, 0)
    leaves(life, 0)
    assert life.phase is Phase.SUCCEEDED


def test_a_node_that_is_away_may_still_explain_the_echoes(training) -> None:
    life = training(standbys=1)
    leaves(life, 1)
    life.silence("n1")
    life.dies(0, echo=True, exception="RuntimeError")
    assert life.phase is Phase.RUNNING
    life.do(e.NodeVanished(node="n1"))
    assert (life.incident.kind, life.incident.node) == (Kind.NODE_LOST, "n1")


def test_a_snapshot_is_not_doubted_because_a_rank_left_soon_after_it(training) -> None:
    life = training()
    life.dies(3, signal=9)
    life.answer(snapshots=[(10, life.job.epoch - 1)])
    assert life.job.restore is not None
    leaves(life, 1)
    life.dies(0, echo=True, exception="RuntimeError", step=10)
    assert life.job.points == ()
