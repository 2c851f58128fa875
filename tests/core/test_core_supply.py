"""Who waits for nodes is asked again where that may help, and costs nothing where it does not."""

from typing import Any

import pytest

from holdfast.driver.core import decide as deciding
from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Phase


@pytest.fixture
def asked(life: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """At which entries nodes were given out; `other` waits while `job` has them all."""
    times: list[int] = []
    real = deciding.schedule

    def counted(turn: Any) -> None:
        times.append(turn.sequence)
        real(turn)

    monkeypatch.setattr(deciding, "schedule", counted)
    for name in ("n0", "n1"):
        life.node(name)
    life.submit()
    life.submit("other", nodes=1)
    life.answer()
    assert life.state.jobs["other"].phase is Phase.PENDING
    times.clear()
    return times


def test_what_ranks_tell_of_their_steps_gives_nobody_a_node(life: Any, asked: list[int]) -> None:
    life.progress(5)
    life.progress(6)
    assert asked == []


@pytest.mark.parametrize("what", ["comes", "is given back", "is wanted no more", "time passes"])
def test_whoever_waits_is_asked_once_a_node_may_be_had(
    life: Any, asked: list[int], what: str
) -> None:
    if what == "comes":
        life.node("n2")
        assert life.state.jobs["other"].places == ("n2",)
    elif what == "is given back":
        life.ends_well()
        life.do(e.NodeReleased(node="n0"))
        assert life.state.jobs["other"].places == ("n0",)
    elif what == "is wanted no more":
        life.do(e.NodeAppeared(node="n2", closed="kubectl cordon"))
        life.connect("n2", "n2-first")
        assert life.state.jobs["other"].places == ()
        life.do(e.NodeAppeared(node="n2"))
        assert life.state.jobs["other"].places == ("n2",)
    else:
        life.tick()
    assert asked


def test_each_executor_has_its_own_time_to_come_whoever_is_given_later(life) -> None:
    """Each standby that was given moved the time by which the start had to be whole."""
    life.node("n0")
    life.node("n1")
    life.do(e.NodeAppeared(node="n2"))  # no executor of it comes
    life.submit(nodes=3, standbys=1)
    given_s = life.now
    for name in life.job.members:
        life.do(e.NodeAllocated(job="job", node=name))
    for k in range(3, 7):
        life.node(f"n{k}")
        if k < 6:
            life.lose(f"n{k}")
        life.wait(until_s=life.now + 25)
    assert life.job.standbys == ("n6",)
    assert "n2" in life.job.places
    life.wait(until_s=given_s + life.policy.connect_s + 0.1)
    assert life.job.places == ("n0", "n1", "n6"), "a standby is there"


def test_a_standby_that_was_given_last_has_its_whole_time(life) -> None:
    for name in ("n0", "n1"):
        life.node(name)
    life.submit(standbys=1)
    life.answer()
    life.wait(until_s=life.now + 100)
    life.do(e.NodeAppeared(node="n2"))
    given_s = life.now
    assert life.job.standbys == ("n2",)
    life.wait(until_s=given_s + life.policy.connect_s - 1)
    assert life.job.standbys == ("n2",)
    life.wait(until_s=given_s + life.policy.connect_s + 1)
    assert life.job.standbys == ()
