"""Restart budgets: how many restarts a fault of the user may cost, over how long."""

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Distrust
from holdfast.driver.core.state.fact import Act, Hypothesis
from holdfast.driver.core.state.model import Phase
from holdfast.protocol.faults import Blame, Kind


def test_a_deterministic_exception_fails_after_its_budget_with_the_traceback_first(
    training,
) -> None:
    life = training(user=e.Budget(restarts=3, window_s=3600))
    for _ in range(4):
        assert life.phase is Phase.RUNNING
        life.dies(1, exception="ValueError", step=5)
        if life.phase is not Phase.FAILED:
            life.answer()
    assert life.phase is Phase.FAILED
    assert str(life.job.failure).startswith("Traceback: ValueError")
    assert "All 3 restarts for user faults" in life.job.failure.reason
    assert life.evicted == []
    assert life.ordered(Distrust) == []


@pytest.mark.parametrize(
    ("restarts", "window_s", "said"),
    [
        (0, 3600, "No restart is allowed for user faults"),
        (1, 3600, "The one restart for user faults within 1 h is used"),
        (2, 90, "All 2 restarts for user faults within 90 s are used"),
    ],
)
def test_how_many_restarts_are_used_is_told_in_the_right_number(
    training, restarts: int, window_s: float, said: str
) -> None:
    life = training(user=e.Budget(restarts=restarts, window_s=window_s))
    for _ in range(restarts + 1):
        life.dies(1, exception="ValueError", step=5)
        if life.phase is not Phase.FAILED:
            life.answer()
    assert life.job.failure.reason == f"rank 1 on n0 raised ValueError. {said}"
    table = life.incident.table
    assert (table.chosen, table.act) == (None, Act.GIVE_UP), "what may be open was not tried"


def crashes(life, times: int, apart_s: float) -> int:
    """The script raises at another step each time, having got on for so long; how often it did."""
    for count in range(times):
        life.dies(1, exception="ValueError", own_step=10 * count + 5)
        if life.phase is Phase.FAILED:
            return count + 1
        for _ in range(6):
            life.answer()
            if life.job.exam is not None:
                life.tests_end()
        life.progress(10 * count + 11)
        life.now += apart_s
    return times


@pytest.mark.parametrize(("apart_s", "times"), [(300.0, 30), (20.0, 5)])
def test_a_job_that_gets_on_well_earns_its_restarts(training, apart_s: float, times: int) -> None:
    life = training(user=e.Budget(restarts=3, window_s=1e6))
    assert crashes(life, 30, apart_s) == times
    facts = [fact for fact in life.job.facts if fact.payer is Blame.USER]
    assert sum(not fact.earned for fact in facts) == min(3, 30 // times), (
        "and the first one is paid"
    )
    assert sum(fact.earned for fact in facts) > 20 or times == 5, "which are told as restarts, too"


def test_a_job_that_does_not_get_on_earns_nothing_however_long_that_lasts(training) -> None:
    life = training(infrastructure=e.Budget(restarts=5, window_s=1e6))
    life.dies(1, signal=11)
    life.answer()
    life.progress(11)
    for _ in range(20):
        life.now += 300.0
        life.dies(1, signal=11)
        if life.phase is Phase.FAILED:
            break
        for _ in range(6):
            life.answer()
            if life.job.exam is not None:
                life.tests_end()
    assert life.phase is Phase.FAILED
    assert not any(fact.earned for fact in life.job.facts[2:]), "the first of them had got on"


def test_who_allows_no_restart_gets_none_however_well_the_job_got_on(training) -> None:
    life = training(user=e.Budget(restarts=0, window_s=3600))
    life.now += 1e5
    assert crashes(life, 2, 300.0) == 1


NO_FOLDER = "workdir: '/no' is not a folder on this node. Give the path of one that is."


def test_a_job_that_cannot_be_started_fails_at_once_with_field_value_and_fix(life) -> None:
    life.node("n0")
    life.submit(nodes=1)
    life.answer()
    life.dies(0, code=126, unstartable=NO_FOLDER)
    assert life.phase is Phase.FAILED
    assert life.job.failure.reason == f"rank 0 on n0 could not be started: {NO_FOLDER}"
    assert (life.job.attempt, life.incident.kind) == (1, Kind.START_FAILED)
    assert life.evicted == []


def test_the_same_exit_code_of_a_program_that_ran_is_tried_again(life) -> None:
    life.node("n0")
    life.submit(nodes=1)
    life.answer()
    life.dies(0, code=126)
    assert life.phase is Phase.SUSPENDING


def test_a_job_that_has_trained_is_tried_again_where_its_folder_is_missing(training) -> None:
    life = training()
    life.dies(2, code=126, unstartable=NO_FOLDER)
    assert life.phase is Phase.SUSPENDING


def test_a_transient_exception_costs_one_retry(training) -> None:
    life = training()
    life.dies(1, exception="ValueError")
    life.answer()
    life.progress(2)
    assert life.phase is Phase.RUNNING
    assert life.job.incident is None
    assert life.incident.closed_s is not None
    assert len(life.paid) == 1


def test_old_recoveries_leave_the_sliding_window(training) -> None:
    life = training(user=e.Budget(restarts=1, window_s=100))
    for step in range(2, 6):
        life.dies(1, exception="ValueError")
        life.answer()
        life.progress(step)
        life.wait(until_s=life.now + 101)
    assert life.phase is Phase.RUNNING


def test_a_budget_of_none_fails_at_the_first_fault(training) -> None:
    life = training(infrastructure=e.Budget(restarts=0, window_s=100))
    life.dies(1, signal=9)
    assert life.phase is Phase.FAILED


def test_budgets_of_user_and_infrastructure_are_apart(training) -> None:
    life = training(user=e.Budget(restarts=0, window_s=3600))
    life.dies(1, signal=9)
    assert life.phase is Phase.SUSPENDING


def test_what_is_left_of_a_script_whose_steps_nobody_sees_is_the_script(training) -> None:
    life = training(nodes=1)
    for _ in range(4):
        life.dies(0, exception="ValueError")
        if not life.job.finished:
            life.answer()
    assert life.phase is Phase.FAILED
    table = life.incident.table
    rows = {row.hypothesis: row for row in table.rows}
    assert table.chosen is Hypothesis.USER
    why = "it ended by its own word 4 times, and nothing else is left"
    assert (rows[Hypothesis.USER].open, rows[Hypothesis.USER].why) == (True, why)
    assert not rows[Hypothesis.PASSING].open
