"""A mass failure stops eviction until a person has looked; a dry run says what it would evict."""

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Distrust
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.model import Phase
from holdfast.driver.core.state.node import Source
from holdfast.driver.formats.encode import decode, encode
from holdfast.driver.people.admission import refuse
from holdfast.protocol.faults import Finding, Kind, Weight

RELEASE = e.BrakeReleaseRequested(reason="the switch is mended", by="ada")


def broken(node: str) -> e.Found:
    """Explicit evidence against a node that no job has."""
    finding = Finding(
        kind=Kind.KERNEL_FAULT, weight=Weight.CONCLUSIVE, node=node, summary=f"XID 79 on {node}"
    )
    return e.Found(finding=finding)


@pytest.fixture
def braked(life):
    """Four nodes, two of them evicted, and a third that would be."""
    for k in range(4):
        life.node(f"n{k}")
    for node in ("n0", "n1", "n2"):
        life.do(broken(node))
    return life


def test_a_mass_failure_puts_the_brake_on_and_says_why(braked) -> None:
    assert braked.evicted == ["n0", "n1"]
    assert braked.state.brake.on
    assert braked.state.brake.why == "2 of 4 nodes were evicted within 60 s, n2 next"
    assert "n2 would be evicted and is only left out: the brake is on" in braked.whys[-1]
    assert [effect.node for effect in braked.ordered(Distrust)] == ["n0", "n1"]


def test_time_does_not_release_it(braked) -> None:
    braked.wait(until_s=braked.now + 10_000)
    braked.do(broken("n3"))
    assert braked.evicted == ["n0", "n1"]
    assert braked.state.brake.on


def test_a_driver_that_takes_over_keeps_it_on(braked) -> None:
    braked.state = decode(encode(braked.state))
    braked.do(e.DriverStarted(term=2))
    assert braked.state.brake.on


def test_a_person_releases_it_and_what_was_evicted_before_counts_no_more(braked) -> None:
    assert refuse(braked.state, RELEASE) is None
    braked.do(RELEASE)
    assert braked.whys[-1] == "the brake is released (ada: the switch is mended)"
    braked.do(broken("n2"))
    assert braked.evicted == ["n0", "n1", "n2"]


def test_a_persons_own_eviction_is_not_held_back(braked) -> None:
    braked.do(e.NodeEvictRequested(node="n3", reason="loud"))
    assert braked.evicted == ["n0", "n1", "n3"]


def test_a_person_puts_it_on(life) -> None:
    for k in range(4):
        life.node(f"n{k}")
    life.do(e.BrakeApplyRequested(reason="we rewire", by="ada"))
    life.do(broken("n0"))
    assert life.evicted == []
    assert "ada: we rewire" in life.whys[-1]


def test_what_is_already_so_is_refused(life) -> None:
    assert refuse(life.state, RELEASE).code == "brake-off"
    life.do(e.BrakeApplyRequested(reason="we rewire"))
    again = refuse(life.state, e.BrakeApplyRequested(reason="we rewire"))
    assert again.code == "brake-on"
    assert "we rewire" in str(again)


def test_a_job_recovers_though_the_brake_is_on(training) -> None:
    life = training(nodes=3, standbys=1)
    life.do(e.BrakeApplyRequested(reason="we rewire"))
    life.lose("n1")
    life.answer()
    life.answer()
    assert (life.phase, life.evicted) == (Phase.RUNNING, [])
    assert life.job.places == ("n0", "n3", "n2")


def test_a_few_silent_nodes_do_not_put_it_on(training) -> None:
    life = training(nodes=4)
    life.silence("n0", "n1", "n2", "n3")
    life.wait(until_s=life.now + 500)
    assert not life.state.brake.on


def test_a_dry_run_says_what_it_would_evict_and_does_not(training) -> None:
    life = training(nodes=3, standbys=1)
    life.policy = Policy(dry_run=True)
    life.lose("n1")
    assert life.evicted == []
    assert life.ordered(Distrust) == []
    assert "n1 would be evicted and is only left out: this driver only says" in life.whys[-1]
    assert "it would be evicted (n1 is lost)" in life.state.nodes["n1"].against[Source.REST].why
    life.answer()
    life.answer()
    assert life.phase is Phase.RUNNING
    life.do(e.NodeEvictRequested(node="n2", reason="loud"))
    assert life.evicted == ["n2"], "what a person wants is done"


def test_names_of_nodes_that_are_gone_are_no_nodes_to_take_a_share_of(life) -> None:
    """A cluster that grows and shrinks has known hundreds: half of those would never be reached."""
    for k in range(100):
        life.do(e.NodeAppeared(node=f"old{k}"))
        life.do(e.NodeVanished(node=f"old{k}", why="its Node object is deleted"))
    life.now += life.policy.at_once_s
    for k in range(4):
        life.node(f"n{k}")
    for node in ("n0", "n1", "n2"):
        life.do(broken(node))
    assert life.evicted == ["n0", "n1"]
    assert life.state.brake.why == "2 of 4 nodes were evicted within 60 s, n2 next"


def test_those_that_went_lately_count_as_they_are_what_went_wrong(life) -> None:
    for k in range(4):
        life.node(f"n{k}")
    for node in ("n0", "n1"):
        life.do(broken(node))
        life.do(e.NodeVanished(node=node, why="its Node object is deleted"))
    life.do(broken("n2"))
    assert life.state.brake.why == "2 of 4 nodes were evicted within 60 s, n2 next"
