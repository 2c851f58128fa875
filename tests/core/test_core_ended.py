"""Executors that the cluster ends: a pod deleted, evicted or preempted. The node is no suspect."""

from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Allocate, Distrust, Release
from holdfast.driver.core.state.model import Phase
from holdfast.protocol.faults import Kind


def ended(node: str) -> e.ExecutorEnded:
    return e.ExecutorEnded(job="job", node=node, why="pod job-1-1 was deleted")


def test_a_standby_takes_its_place_and_the_node_is_not_blamed(training) -> None:
    life = training(nodes=2, standbys=1)
    life.effects.clear()
    life.do(ended("n1"))
    life.do(e.ExecutorDisconnected(node="n1", incarnation="n1-first"))
    assert life.job.places == ("n0", "n2")
    assert life.ordered(Release) == [Release(node="n1", cause=None)]
    assert life.ordered(Distrust) == []
    assert life.incident.kind is Kind.EXECUTOR_LOST
    assert "pod job-1-1 was deleted" in life.incident.summary


def test_without_another_the_same_node_is_taken_again_once_it_is_given_back(training) -> None:
    life = training(nodes=2)
    life.do(ended("n1"))
    life.do(e.ExecutorDisconnected(node="n1", incarnation="n1-first"))
    assert life.job.places == ("n0", "")
    life.effects.clear()
    life.do(e.NodeReleased(node="n1"))
    assert [effect.node for effect in life.ordered(Allocate)] == ["n1"]
    life.do(e.NodeAllocated(job="job", node="n1"))
    life.connect("n1", "n1-second")
    life.answer()
    assert life.phase is Phase.RUNNING
    assert life.evicted == []


def test_the_end_of_an_executor_that_the_job_no_longer_has_is_nothing(training) -> None:
    life = training(nodes=2, standbys=1)
    life.do(ended("n1"))
    assert life.do(ended("n1")).idle


def test_a_start_whose_executor_is_ended_gives_everything_back(life) -> None:
    for node in ("n0", "n1"):
        life.do(e.NodeAppeared(node=node))
    life.submit(nodes=2)
    life.do(e.NodeAllocated(job="job", node="n0"))
    life.do(e.NodeAllocated(job="job", node="n1"))
    assert life.phase is Phase.ALLOCATING
    life.do(ended("n1"))
    assert life.phase is Phase.PENDING
    assert sorted(effect.node for effect in life.ordered(Release)) == ["n0", "n1"]


def test_a_node_that_ends_each_executor_before_it_comes_is_asked_again_only_after_a_while(
    life,
) -> None:
    """A kubelet that refuses a pod after it was bound: TopologyAffinityError, OutOfcpu."""
    for node in ("n0", "n1", "n2"):
        life.do(e.NodeAppeared(node=node))
    life.submit(nodes=1)
    for node in ("n0", "n1", "n2"):
        life.do(e.NodeAllocated(job="job", node=node))
        life.do(ended(node))
        life.do(e.NodeReleased(node=node))
    asked = [effect.node for effect in life.ordered(Allocate)]
    assert (asked, life.state.incidents) == (["n0", "n1", "n2"], {})
    assert "ended before it came: pod job-1-1 was deleted" in life.job.waiting
    life.wait(until_s=life.now + life.policy.rest_s)
    assert [effect.node for effect in life.ordered(Allocate)][3:] == ["n0"]


def test_so_is_the_node_of_a_standby(training) -> None:
    life = training(nodes=2, standbys=1, spare=0)
    life.do(ended("n2"))
    life.do(e.NodeReleased(node="n2"))
    assert life.job.standbys == ("n2",), "it was there before, and may come again"
    life.effects.clear()
    for _ in range(5):
        life.do(e.ExecutorDisconnected(node="n2", incarnation="n2-first"))
        life.do(e.NodeAllocated(job="job", node="n2"))
        life.do(ended("n2"))
        life.do(e.NodeReleased(node="n2"))
    assert life.ordered(Allocate) == []
    assert life.phase is Phase.RUNNING


def test_one_that_came_and_lost_its_connection_before_it_ended_is_not_said_not_to_have_come(
    life,
) -> None:
    for node in ("n0", "n1"):
        life.do(e.NodeAppeared(node=node))
    life.submit(nodes=2)
    life.do(e.NodeAllocated(job="job", node="n0"))
    life.connect("n0", "n0-first")
    life.silence("n0")
    life.do(ended("n0"))
    assert life.job.unfit == {}
    assert "pod job-1-1 was deleted" in life.incident.summary


def test_a_parked_job_loses_the_node_whose_pod_ended_and_no_other_comes_meanwhile(life) -> None:
    for node in ("n0", "n1", "n2"):
        life.do(e.NodeAppeared(node=node))
    life.submit(nodes=2)
    life.do(e.NodeAllocated(job="job", node="n0"))
    parked = replace(life.job, parked="a mistake of ours")
    life.state = replace(life.state, jobs={"job": parked})
    life.do(ended("n0"))
    assert life.job.places == ("", "n1")
    assert [order.node for order in life.ordered(Release)] == ["n0"]
