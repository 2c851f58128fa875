"""Nodes that cannot run one job, for a reason of that job's own: the others may have them."""

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Allocate
from holdfast.driver.core.state.model import Phase

NO_GPU = "it has no nvidia.com/gpu"


def refuse(life, job: str, node: str) -> None:
    life.do(e.AllocationFailed(job=job, node=node, why=NO_GPU, unfit=True))
    life.do(e.NodeReleased(node=node))


def asked(life, job: str) -> list[str]:
    return [effect.node for effect in life.ordered(Allocate) if effect.job == job]


def test_a_job_that_no_node_can_run_leaves_all_of_them_to_the_next(life) -> None:
    life.node("n0")
    life.node("n1")
    life.submit("greedy", nodes=1)
    refuse(life, "greedy", "n0")
    refuse(life, "greedy", "n1")
    life.submit("modest", nodes=2)
    assert life.state.jobs["modest"].places == ("n0", "n1")
    assert asked(life, "greedy") == ["n0", "n1"]


def test_it_says_which_nodes_could_not_run_it_and_why(life) -> None:
    life.node("n0")
    life.submit("greedy", nodes=1)
    refuse(life, "greedy", "n0")
    waiting = f"it needs 1 node, and none is free; n0: it could not be allocated: {NO_GPU}"
    assert life.state.jobs["greedy"].waiting == waiting


def test_such_a_node_is_asked_for_again_after_a_while(life) -> None:
    life.node("n0")
    life.submit("greedy", nodes=1)
    refuse(life, "greedy", "n0")
    life.wait(until_s=life.now + life.policy.rest_s - 1)
    assert asked(life, "greedy") == ["n0"]
    life.wait(until_s=life.now + 2)
    assert asked(life, "greedy") == ["n0", "n0"]
    assert life.state.jobs["greedy"].unfit == {}


def test_neither_an_empty_place_nor_a_standby_is_filled_with_one(training) -> None:
    life = training(nodes=2, standbys=1, spare=0)
    life.node("n9")
    life.lose("n1")
    life.do(e.AllocationFailed(job="job", node="n9", why=NO_GPU, unfit=True))
    life.do(e.NodeReleased(node="n9"))
    life.answer()
    assert "n9" not in life.job.members
    assert asked(life, "job").count("n9") == 1


def given(life) -> None:
    """What the cluster does at once: each node is given, and given back."""
    for name, node in life.state.nodes.items():
        if node.releasing:
            life.do(e.NodeReleased(node=name))
        if node.job is not None and not node.allocated:
            life.do(e.NodeAllocated(job=node.job, node=name))


def test_an_executor_that_never_came_while_others_did_is_the_nodes_matter_for_every_job(
    life,
) -> None:
    life.node("n0")
    life.do(e.NodeAppeared(node="n1"))
    life.submit("first", nodes=2)
    given(life)
    life.wait(until_s=life.now + life.policy.connect_s)
    given(life)
    life.submit("second", nodes=2)
    assert life.state.jobs["second"].phase is Phase.PENDING
    assert "n1: its executor did not come in time" in life.state.jobs["second"].waiting


def test_a_job_of_which_no_executor_ever_comes_leaves_its_nodes_to_others(life) -> None:
    """An image that does not exist, a volume that nobody has: as young as the others are, they get
    all nodes as soon as it has waited once."""
    for node in ("n0", "n1", "n2", "n3"):
        life.do(e.NodeAppeared(node=node))
    life.submit("bad", nodes=2)
    life.submit("good", nodes=4)
    given(life)
    assert life.state.jobs["good"].places == ()
    life.wait(until_s=life.now + life.policy.connect_s)
    given(life)
    assert life.state.jobs["good"].places == ("n0", "n1", "n2", "n3")
    bad = life.state.jobs["bad"]
    assert (bad.phase, bad.facts) == (Phase.PENDING, ())
    assert bad.waiting == "none of its executors came within 120 s"


def test_it_tries_other_nodes_next_for_its_own_may_be_why(life) -> None:
    for node in ("n0", "n1", "n2"):
        life.do(e.NodeAppeared(node=node))
    life.submit("only", nodes=1)
    given(life)
    for _ in range(3):
        life.wait(until_s=life.now + life.policy.connect_s)
        given(life)
        life.wait(until_s=life.now + life.policy.rest_s)
        given(life)
    assert asked(life, "only") == ["n0", "n1", "n2", "n0"]


OVER_QUOTA = "exceeded quota: pods=2"


def bar(life, job: str, node: str) -> None:
    life.do(e.AllocationFailed(job=job, node=node, why=OVER_QUOTA, unfit=True, barred=True))
    life.do(e.NodeReleased(node=node))


def test_a_job_that_would_get_no_node_at_all_asks_for_no_other(life) -> None:
    for node in ("n0", "n1", "n2", "n3"):
        life.node(node)
    life.submit("large", nodes=2)
    bar(life, "large", "n0")
    assert life.state.jobs["large"].places == ()
    assert asked(life, "large") == ["n0", "n1"]
    assert life.state.jobs["large"].waiting == OVER_QUOTA, "a count of nodes would mislead"
    life.do(e.NodeReleased(node="n1"))
    life.submit("other", nodes=4)
    assert life.state.jobs["other"].places == ("n0", "n1", "n2", "n3")


def test_a_job_that_is_barred_asks_again_after_a_while(life) -> None:
    life.node("n0")
    life.submit("large", nodes=1)
    bar(life, "large", "n0")
    life.wait(until_s=life.now + life.policy.rest_s - 1)
    assert asked(life, "large") == ["n0"]
    life.wait(until_s=life.now + 2)
    assert asked(life, "large") == ["n0", "n0"]
    assert life.state.jobs["large"].barred is None


def test_a_place_that_is_empty_says_why_its_job_gets_no_node(training) -> None:
    life = training(nodes=2, standbys=0, spare=0)
    life.node("n8")
    life.node("n9")
    life.lose("n1")
    bar(life, "job", "n8")
    life.answer()
    assert OVER_QUOTA in life.job.waiting
    assert "n9" not in asked(life, "job")
