"""Nodes that the cluster keeps closed to new work: what runs there runs on."""

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Allocate
from holdfast.driver.core.state.model import Phase


def allocated(life) -> list[str]:
    return [effect.node for effect in life.ordered(Allocate)]


def test_a_closed_node_gets_no_job_until_it_is_open(life) -> None:
    life.node("n0")
    life.do(e.NodeAppeared(node="n1", closed="it is cordoned"))
    life.submit(nodes=2)
    assert life.phase is Phase.PENDING
    assert "closed to new work: it is cordoned" in " ".join(life.whys)
    assert life.job.waiting == "it needs 2 nodes, and 1 is free; n1: it is cordoned"
    life.do(e.NodeAppeared(node="n1"))
    assert sorted(allocated(life)) == ["n0", "n1"]


def test_a_job_that_waits_says_why_nodes_that_are_there_could_not_be_had(life) -> None:
    for node in ("n0", "n1"):
        life.do(e.NodeAppeared(node=node))
    life.submit(nodes=2)
    life.do(e.AllocationFailed(job="job", node="n1", why="Insufficient nvidia.com/gpu"))
    life.do(e.NodeReleased(node="n0"))
    assert life.phase is Phase.PENDING
    assert "n1: it could not be allocated: Insufficient nvidia.com/gpu" in life.job.waiting


def test_ranks_on_a_node_that_is_closed_run_on(training) -> None:
    life = training(nodes=2)
    life.do(e.NodeAppeared(node="n1", closed="it is cordoned"))
    life.wait(until_s=life.now + 300)
    assert life.phase is Phase.RUNNING
    assert life.evicted == []


def test_a_fact_that_says_nothing_new_is_not_journaled(training) -> None:
    life = training()
    life.do(e.NodeAppeared(node="n1", closed="it is cordoned"))
    assert life.do(e.NodeAppeared(node="n1", closed="it is cordoned")).idle
