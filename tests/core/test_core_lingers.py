"""Executors that were to end on a node that is away: removed by an order, which says why."""

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Release
from holdfast.driver.people.story import lines_of
from holdfast.driver.ports import Entry

WHY = "pod job-1-1 has been Terminating for 36 s on n1, which is away"
LINGERS = e.ExecutorLingers(job="job", node="n1", why=WHY)


def test_it_is_removed_by_force_and_the_story_of_its_job_says_so(training) -> None:
    life = training(nodes=2, standbys=1)
    life.do(e.NodeVanished(node="n1"))
    life.do(e.ExecutorDisconnected(node="n1", incarnation="n1-first"))
    life.do(e.NodeReleased(node="n1"))
    decision = life.do(LINGERS)
    assert decision.effects == (Release(node="n1"),)
    assert (decision.jobs, decision.nodes) == (("job",), ("n1",))
    entry = Entry(
        sequence=7,
        term=1,
        now=1.0,
        at="12:00:00",
        policy=0,
        event=LINGERS,
        effects=decision.effects,
        why=decision.why,
    )
    (line,) = lines_of([entry])
    assert (line.text, line.seen) == (f"removed by force: {WHY}", False)
    assert life.do(e.NodeReleased(node="n1", cause=7)).idle


def test_on_a_node_that_a_job_has_or_that_is_there_again_nothing_is_removed(training) -> None:
    """The release would end the executor that works there, and a node that is there confirms."""
    life = training(nodes=2)
    assert life.do(LINGERS).idle
    life.do(e.NodeVanished(node="n1"))
    assert "n1" in life.job.places
    assert life.do(LINGERS).idle


def test_of_a_job_or_a_node_that_is_forgotten_it_is_removed_too(life) -> None:
    assert life.do(LINGERS).effects == (Release(node="n1"),)


def test_a_stray_one_is_removed_from_a_node_that_is_there_unless_that_is_held(training) -> None:
    why = "pod holdfast-trial-n2-57 is on n2, and nobody wants it there"
    life = training(nodes=1, standbys=0)
    life.do(e.NodeAppeared(node="n2", rack="r"))
    decision = life.do(e.ExecutorLingers(job="", node="n2", why=why, stray=True))
    assert (decision.effects, decision.why) == ((Release(node="n2"),), f"removed: {why}")
    (held,) = life.job.places
    assert life.do(e.ExecutorLingers(job="", node=held, why=why, stray=True)).idle
