"""Executors that were there are not dropped as if they had never come: they have time to return."""

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Phase, Timer


@pytest.fixture
def nearly_late(life):
    """Two executors that come a second before their time is over: nothing runs there yet."""
    for name in ("n0", "n1"):
        life.do(e.NodeAppeared(node=name))
    life.submit()
    for name in life.job.places:
        life.do(e.NodeAllocated(job="job", node=name))
    life.now = life.job.timers[Timer.CONNECT] - 1.0
    for name in ("n0", "n1"):
        life.connect(name, f"{name}-first")
    assert life.phase is Phase.STARTING
    return life


def test_executors_that_came_have_their_time_to_come_back_to_a_driver_that_takes_over(
    nearly_late,
) -> None:
    life = nearly_late
    life.do(e.DriverStarted(term=2))
    life.wait(until_s=life.now + life.policy.return_s - 1)
    assert life.job.places == ("n0", "n1")
    for name in ("n0", "n1"):
        life.connect(name, f"{name}-first")
    life.answer()
    assert (life.phase, life.job.places) == (Phase.RUNNING, ("n0", "n1"))


def test_one_whose_connection_ends_for_a_moment_has_its_time_too(nearly_late) -> None:
    life = nearly_late
    life.silence("n0")
    life.wait(until_s=life.now + life.policy.reconnect_s - 1)
    life.connect("n0", "n0-first")
    life.answer()
    assert (life.phase, life.job.places) == (Phase.RUNNING, ("n0", "n1"))


def test_a_takeover_just_before_all_have_to_be_quiet_drops_nobody(nearly_late) -> None:
    life = nearly_late
    life.wait(until_s=life.job.timers[Timer.QUIET] - 1)
    life.do(e.DriverStarted(term=2))
    life.wait(until_s=life.now + life.policy.return_s - 1)
    assert life.job.places == ("n0", "n1")


def test_who_stays_away_with_all_others_is_done_without_in_the_end(nearly_late) -> None:
    """An outage, as it seems, evicts nobody; the job has other nodes nevertheless."""
    life = nearly_late
    life.do(e.DriverStarted(term=2))
    life.wait(until_s=life.now + 3 * life.policy.reconnect_s)
    assert (life.job.places, life.evicted) == (("", ""), [])


def test_the_time_to_come_back_goes_on_after_a_standstill_of_the_driver(nearly_late) -> None:
    life = nearly_late
    life.do(e.DriverStarted(term=2))
    life.do(e.Stalled(stood_s=100.0), after_s=100.0)
    life.wait(until_s=life.now + life.policy.return_s - 1)
    assert life.job.places == ("n0", "n1")


def test_each_of_several_that_are_awaited_has_its_own_time(life) -> None:
    """They were promised ten seconds apart, and none of them comes."""
    life.node("n0")
    life.submit(nodes=1, standbys=3)
    life.answer()
    begun_s = life.now
    for name in ("n1", "n2", "n3"):
        life.do(e.NodeAppeared(node=name), after_s=10.0)
    assert life.job.standbys == ("n1", "n2", "n3")
    for left in (("n2", "n3"), ("n3",), ()):
        begun_s += 10.0
        life.wait(until_s=begun_s + life.policy.connect_s + 1.0)
        assert life.job.standbys == left
