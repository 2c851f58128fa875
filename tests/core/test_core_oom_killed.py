"""An executor that was killed for memory with all its ranks: the job's own doing, and no node's."""

from typing import TYPE_CHECKING

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Phase
from holdfast.protocol.faults import Blame, Kind

if TYPE_CHECKING:
    from tests.core.conftest import Life

STARVED = e.ExecutorStarved(job="job", node="n1", limit_bytes=300 << 20)
TOLD = (
    "all ranks on n1 were killed for memory: the limit of all ranks there is 300 MiB. "
    "Ask for more by spec.pod.resources.limits.memory, or let them use less"
)


def believed(life: "Life") -> None:
    incident = life.incident
    assert (incident.kind, incident.blame, incident.node) == (Kind.OUT_OF_MEMORY, Blame.USER, "n1")
    assert incident.summary == TOLD
    assert life.blamed("n1") == []
    assert life.paid == [Blame.USER]


@pytest.mark.parametrize("cut_first", [True, False])
def test_told_before_its_executor_is_back_it_is_the_users(training, cut_first: bool) -> None:
    life = training()
    epoch = life.job.epoch
    happens = [lambda: life.silence("n1"), lambda: life.do(STARVED)]
    for happen in happens if cut_first else happens[::-1]:
        happen()
    assert life.job.epoch == epoch + 1
    life.connect("n1", "n1-second")
    believed(life)
    life.answer()
    life.progress(5)
    assert (life.phase, life.job.epoch) == (Phase.RUNNING, epoch + 1)


def test_told_after_its_executor_is_back_what_was_believed_is_amended(training) -> None:
    life = training()
    life.silence("n1")
    life.connect("n1", "n1-second")
    assert life.incident.kind is Kind.EXECUTOR_LOST
    epoch = life.job.epoch
    assert life.blamed("n1")
    life.answer()
    life.do(STARVED, after_s=2)
    believed(life)
    assert life.job.epoch == epoch  # the ranks that were started since go on


def test_its_container_may_take_longer_to_be_back_than_one_that_is_silent(training) -> None:
    life = training(spare=1)
    life.silence("n1")
    life.do(STARVED)
    life.wait(until_s=life.now + life.policy.connect_s - 1)
    assert "n1" in life.job.nodes
    life.wait(until_s=life.now + 2 * life.policy.reconnect_s + 1)
    assert "n1" not in life.job.nodes  # it does not come at all


def test_it_ends_by_the_users_budget_and_no_node_is_tested(training) -> None:
    life = training(user=e.Budget(restarts=1, window_s=3600))
    for life_of_it in ("n1-second", "n1-third"):
        life.silence("n1")
        life.do(STARVED)
        if life.phase is not Phase.FAILED:
            life.connect("n1", life_of_it)
            life.answer()
            life.progress(9)
    assert life.phase is Phase.FAILED
    assert "killed for memory" in life.job.failure.reason
    assert not any(node.quarantined for node in life.state.nodes.values())


def test_of_a_node_that_another_has_or_that_had_not_come_nothing_follows(training) -> None:
    life = training(spare=1)
    assert life.do(e.ExecutorStarved(job="job", node="n2")).idle
    assert life.do(e.ExecutorStarved(job="other", node="n1")).idle
    assert life.do(e.ExecutorStarved(job="job", node="n9")).idle
