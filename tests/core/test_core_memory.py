"""A rank that the kernel killed for memory: the job's own doing, and no node's."""

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Phase
from holdfast.protocol.faults import Blame, Kind


@pytest.mark.parametrize(
    ("limit_bytes", "told"),
    [
        pytest.param(
            300 << 20,
            "the limit of all ranks there is 300 MiB. Ask for more by "
            "spec.pod.resources.limits.memory, or let them use less",
            id="a-limit",
        ),
        pytest.param(
            0,
            "its node had no more. Let fewer ranks share it, or let them use less",
            id="the-node",
        ),
    ],
)
def test_what_it_died_of_is_said_with_what_to_do_and_its_node_has_no_strike(
    training, limit_bytes: int, told: str
) -> None:
    life = training()
    life.dies(3, signal=9, memory_limit_bytes=limit_bytes)
    incident = life.incident
    assert (incident.kind, incident.rank) == (Kind.OUT_OF_MEMORY, 3)
    assert incident.blame is Blame.USER
    assert incident.summary == f"rank 3 on n1 was killed for memory: {told}"
    assert life.blamed("n1") == []
    assert life.paid == [Blame.USER]


def test_the_users_budget_pays_for_it_and_no_node_is_tested(training) -> None:
    life = training(user=e.Budget(restarts=1, window_s=3600))
    life.dies(3, signal=9, memory_limit_bytes=1 << 30, own_step=7)
    life.answer()
    life.progress(9)
    life.dies(3, signal=9, memory_limit_bytes=1 << 30, own_step=12)
    assert life.phase is Phase.FAILED
    assert "killed for memory" in life.job.failure.reason
    assert not any(node.quarantined for node in life.state.nodes.values())
