"""A place without a node, where no node is free: another job's standby is lent, and nobody's node.

And of the nodes that could take a place, the one that is near the others.
"""

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Allocate, Release


def lender(life, *, standbys: int = 1, name: str = "lender", first: int = 10) -> list[str]:
    """A job of one node that trains and has standbys; those."""
    for number in range(1 + standbys):
        life.node(f"n{first + number}")
    life.submit(name, nodes=1, standbys=standbys)
    life.answer(name)
    return list(life.state.jobs[name].standbys)


def released(life) -> list[str]:
    return [effect.node for effect in life.ordered(Release)]


def test_a_standby_of_another_job_takes_an_empty_place_once_it_is_given_back(training) -> None:
    life = training(nodes=2, standbys=0)
    (standby,) = lender(life)
    life.lose("n1")
    assert standby in released(life)
    waits = "there is no node for ranks 2 to 3, and one is on its way"
    assert life.state.jobs["job"].waiting == waits
    life.do(e.NodeReleased(node=standby))
    assert standby in life.state.jobs["job"].places
    assert life.state.jobs["lender"].standbys == ()
    assert any(f"lender lends job its standby {standby}" in why for why in life.whys)


def test_no_more_is_lent_than_places_are_empty(training) -> None:
    life = training(nodes=2, standbys=0)
    standbys = lender(life, standbys=3)
    life.lose("n1")
    life.node("n1")
    assert len(set(standbys) & set(released(life))) == 1


def test_what_the_lender_has_an_empty_place_for_is_not_lent(training) -> None:
    """Its node is left and the other job, which is older, is served in the same decision."""
    life = training(nodes=2, standbys=0)
    (standby,) = lender(life)
    life.do(e.NodeMaintainRequested(node="n10", reason="new kernel"))
    life.lose("n1")
    assert standby not in released(life)
    life.answer("lender")
    assert life.state.jobs["lender"].places == (standby,)
    assert standby not in released(life)


def test_a_free_node_comes_before_a_standby_of_another(training) -> None:
    life = training(nodes=2, standbys=0)
    (standby,) = lender(life)
    life.node("n30")
    life.lose("n1")
    assert "n30" in life.state.jobs["job"].places
    assert life.state.jobs["lender"].standbys == (standby,)


def test_a_start_takes_no_standby_from_anybody(life) -> None:
    (standby,) = lender(life)
    life.node("n0")
    life.submit("next", nodes=2)
    assert life.state.jobs["next"].places == ()
    assert standby not in released(life)


def test_the_job_that_has_the_most_to_spare_lends(training) -> None:
    life = training(nodes=2, standbys=0)
    few = lender(life, standbys=1, name="few", first=10)
    many = lender(life, standbys=2, name="many", first=20)
    life.lose("n1")
    assert life.state.jobs["few"].standbys == tuple(few)
    assert len(life.state.jobs["many"].standbys) == len(many) - 1


def test_the_lender_has_a_standby_again_once_a_node_is_free(training) -> None:
    life = training(nodes=2, standbys=0)
    (standby,) = lender(life)
    life.lose("n1")
    life.do(e.NodeReleased(node=standby))
    life.node("n40")
    assert life.state.jobs["lender"].standbys == ("n40",)


def test_a_replacement_is_of_the_rack_where_the_job_is(life) -> None:
    for node, rack in (("n1", "b"), ("n2", "b")):
        life.node(node, rack=rack)
    life.submit("job", nodes=2)
    life.answer()
    for node, rack in (("n3", "a"), ("n4", "b")):
        life.node(node, rack=rack)
    life.lose("n1")
    asked = [effect.node for effect in life.ordered(Allocate)]
    assert asked == ["n1", "n2", "n4"]


def test_a_standby_is_of_the_rack_where_the_job_is(life) -> None:
    for node, rack in (("n1", "b"), ("n2", "b"), ("n3", "b"), ("n0", "a")):
        life.node(node, rack=rack)
    life.submit("job", nodes=2, standbys=1)
    assert life.state.jobs["job"].standbys == ("n3",)
