"""The core, told that the driver stood still: whom it waits for has so much longer."""

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.decide import decide
from holdfast.driver.core.state.model import State, Timer
from holdfast.driver.formats.encode import decode, encode

STOOD_S = 24.0

Make = Callable[..., Any]


def test_a_node_that_was_quiet_in_time_is_not_judged_by_a_driver_that_stood_still(
    training: Make,
) -> None:
    life = training(nodes=1)
    life.dies(0)
    life.wait(until_s=life.now + 2.0)
    due_s = life.job.timers[Timer.QUIET]
    life.do(e.Stalled(stood_s=STOOD_S), after_s=STOOD_S)
    assert life.job.timers[Timer.QUIET] == due_s + STOOD_S
    life.tick()
    assert not life.evicted
    life.wait(until_s=due_s + STOOD_S)
    assert life.evicted, "in the end it is judged"


def test_what_was_nearly_over_waits_until_what_came_meanwhile_is_read(training: Make) -> None:
    life = training(nodes=2)
    life.dies(0)
    life.wait(until_s=life.now + 2.0)
    due_s = life.job.timers[Timer.QUIET]
    life.now = due_s - 0.001
    life.do(e.Stalled(stood_s=STOOD_S), after_s=STOOD_S)
    left_s = life.job.timers[Timer.QUIET] - life.now
    assert left_s == pytest.approx(life.policy.catch_up_s)


def test_a_driver_that_runs_for_a_part_of_its_time_gets_on(training: Make) -> None:
    life = training(nodes=1)
    life.dies(0)
    life.wait(until_s=life.now + 2.0)
    ends_s = life.now + 400.0
    while life.now < ends_s and Timer.QUIET in life.job.timers and not life.evicted:
        life.do(e.Stalled(stood_s=2.0), after_s=2.0)
        life.tick(after_s=0.6)
    assert life.evicted, "nobody waits for ever"


def test_a_persons_deadline_passes_while_the_driver_stands_still(training: Make) -> None:
    life = training(nodes=2, deadline_s=100.0)
    due_s = life.job.timers[Timer.DEADLINE]
    life.do(e.Stalled(stood_s=STOOD_S), after_s=STOOD_S)
    assert life.job.timers[Timer.DEADLINE] == due_s


def test_executors_that_were_away_have_the_time_to_come_back(training: Make) -> None:
    life = training(nodes=4)
    life.do(e.ExecutorDisconnected(node="n1", incarnation=life.state.nodes["n1"].incarnation))
    due_s = life.state.nodes["n1"].silent_check_s
    life.do(e.Stalled(stood_s=STOOD_S), after_s=STOOD_S)
    life.tick()
    assert life.state.nodes["n1"].silent_check_s == due_s + STOOD_S
    assert not life.evicted


def test_nothing_is_noted_where_nothing_is_waited_for() -> None:
    assert decide(State(), e.Stalled(stood_s=STOOD_S), 30.0, _policy()).idle


def test_a_replay_of_the_entry_comes_to_the_same_state(training: Make) -> None:
    life = training(nodes=2)
    life.dies(0)
    before = life.state
    decision = life.do(e.Stalled(stood_s=STOOD_S), after_s=STOOD_S)
    again = decide(decode(encode(before)), e.Stalled(stood_s=STOOD_S), life.now, life.policy)
    assert again.state == decision.state
    assert "the driver stood still for 24.0 s" in decision.why


def _policy() -> Any:
    from holdfast.driver.core.policy import Policy

    return Policy()
