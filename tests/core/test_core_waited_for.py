"""A node that is not heard, of a job that may have no other: it is waited for."""

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Phase
from holdfast.protocol.faults import Finding, Kind, Weight


def lost(life, node: str) -> None:
    """Its connection ends, and its peers get no answer."""
    life.silence(node)
    finding = Finding(
        kind=Kind.NODE_LOST,
        weight=Weight.CONCLUSIVE,
        node=node,
        summary=f"{node} is lost",
    )
    life.do(e.Found(finding=finding))


def back(life, node: str) -> None:
    link = life.state.nodes[node].link
    again = e.ExecutorConnected(
        node=node, incarnation=link.incarnation, address=link.address, generation=0, epoch=0
    )
    life.do(again)


def test_its_ranks_start_anew_there_once_it_is_back(training) -> None:
    life = training()
    lost(life, "n1")
    assert (life.evicted, life.phase) == ([], Phase.RUNNING)
    assert any("no other node may take its place: wait" in why for why in life.whys)
    life.wait(until_s=life.now + 35)
    assert (life.evicted, life.phase) == ([], Phase.RUNNING), "nor for its silence"
    back(life, "n1")
    life.wait(until_s=life.now + 10)
    life.answer()
    assert (life.phase, life.job.places, life.evicted) == (Phase.RUNNING, ("n0", "n1"), [])
    assert life.incident.table.chosen == "node"


def test_it_is_replaced_once_another_node_would_be_there(training) -> None:
    life = training()
    lost(life, "n1")
    life.wait(until_s=life.now + life.policy.connect_s + 10)
    assert life.evicted == ["n1"]


@pytest.mark.parametrize("more", [{"standbys": 1}, {"spare": 1}])
def test_where_there_is_another_it_is_replaced_at_once(training, more: dict) -> None:
    life = training(**more)
    lost(life, "n1")
    assert life.evicted == ["n1"]


def test_it_is_waited_for_as_long_where_its_incident_is_older(training) -> None:
    life = training()
    life.progress(500)
    life.dies(0, signal=9, own_step=500)
    life.answer(runs=False)
    life.now += 2 * life.policy.connect_s
    lost(life, "n1")
    assert (life.evicted, len(life.state.incidents)) == ([], 1)
    back(life, "n1")
    life.wait(until_s=life.now + 10)
    assert life.evicted == []


def test_a_job_that_waits_for_it_has_not_recovered(training) -> None:
    life = training(nodes=4)
    life.progress(500)
    life.dies(0, signal=9, own_step=500)
    life.answer()
    life.wait(until_s=life.now + life.policy.settle_s - 50)
    lost(life, "n1")
    life.wait(until_s=life.now + 100)
    assert (life.evicted, life.incident.closed_s) == ([], None)
    life.wait(until_s=life.now + life.policy.connect_s)
    assert life.evicted == ["n1"]
