"""Standstills at one place of a script: counted with the job, and in the end the script's own."""

from typing import Any

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Phase
from holdfast.protocol.faults import Blame, Finding, Kind, Weight

SPOT = "evaluate (train.py:31), step 50"
FIX = "A longer pauseMaxS (`holdfast run --pause-max`) gives it more time."


def stands_still(
    life: Any,
    spot: str,
    *,
    rank: int | None = 2,
    node: str = "n1",
    stalled_s: float = 0.0,
    stuck: bool = False,
) -> None:
    job = life.job
    named = {"node": node, "rank": rank} if rank is not None else {}
    life.do(
        e.Found(
            finding=Finding(
                kind=Kind.HANG if named else Kind.NO_PROGRESS,
                weight=Weight.RESTART,
                job=job.name,
                epoch=job.epoch,
                step=50,
                stalled_s=stalled_s,
                summary="rank 2 holds the job up" if named else "no progress",
                spot=spot,
                fix=FIX,
                stuck=stuck,
                **named,
            )
        )
    )
    incident = life.job.incident
    assert life.incident.table is None, "what is done about it is not chosen yet"
    life.do(e.StacksTaken(job=job.name, incident=incident, stacks={2: "evaluate (train.py:31)"}))


def runs_again(life: Any) -> None:
    life.answer()
    if life.phase is Phase.DIAGNOSING:
        life.tests_end()
        life.answer()
    assert life.job.seated


@pytest.mark.parametrize("rank", [2, None])
def test_the_fourth_standstill_at_one_spot_ends_the_job_by_the_users_budget(
    training: Any, rank: int | None
) -> None:
    life = training()
    for times in (1, 2, 3):
        stands_still(life, SPOT, rank=rank)
        assert life.patience == {SPOT: times}
        assert not life.job.finished
        runs_again(life)
    stands_still(life, SPOT, rank=rank)
    assert life.job.phase is Phase.FAILED
    assert "4 times" in life.job.failure.reason
    assert life.job.failure.reason.endswith(FIX)
    assert life.job.failure.traceback == "Stack of rank 2:\nevaluate (train.py:31)"
    assert list(life.state.incidents.values())[-1].blame is Blame.USER


def test_standstills_elsewhere_are_counted_apart(training: Any) -> None:
    life = training()
    for step in (50, 61, 75):
        stands_still(life, f"evaluate (train.py:31), step {step}")
        runs_again(life)
    assert set(life.patience.values()) == {1}


def test_a_stop_from_outside_has_no_spot(training: Any) -> None:
    life = training()
    stands_still(life, "")
    assert life.patience == {}


@pytest.mark.parametrize(
    ("nodes", "rank", "where"), [(2, 2, "standbys"), (2, 2, "spare"), (1, None, "spare")]
)
def test_another_node_is_tried_once_before_a_job_ends_for_one_spot(
    training: Any, nodes: int, rank: int | None, where: str
) -> None:
    life = training(nodes=nodes, **{where: 2})
    before = life.job.places
    for times in (1, 2, 3, 4):
        assert life.job.places == before
        stands_still(life, SPOT, rank=rank)
        runs_again(life)
        assert life.patience == {SPOT: times}
    runs_again(life)
    assert life.job.places == (*before[:-1], f"n{nodes}")
    assert life.evicted == []
    stands_still(life, SPOT, rank=rank, node=f"n{nodes}")
    assert life.job.phase is Phase.FAILED
    assert "5 times" in life.job.failure.reason
    assert "also on another node" in life.job.failure.reason


def test_the_place_moves_also_where_the_job_got_on_in_between(training: Any) -> None:
    life = training(spare=1)
    for step in (2, 3, 4):
        stands_still(life, SPOT)
        runs_again(life)
        life.progress(step)
    stands_still(life, SPOT)
    assert "try its place on another node than n1" in life.whys[-1]


STALL = "evaluate (train.py:31), 0 steps after its start or save"


def trains_on(life: Any, step: int | None, *, for_s: float) -> None:
    """It gets further than ever, and goes on for so long; no step: they count from each start."""
    runs_again(life)
    life.progress(step)
    life.wait(until_s=life.now + for_s)


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("spot", [STALL, "open (data.py:9), step 0"])
def test_standstills_that_a_restart_cured_for_long_are_counted_anew(
    training: Any, spot: str, numbered: bool
) -> None:
    life = training()
    for times in range(1, 7):
        stands_still(life, spot)
        assert life.patience == {spot: 1}
        trains_on(life, 1_000 * times if numbered else None, for_s=40 * 86_400.0)
    assert not life.job.finished


def test_without_getting_further_time_between_standstills_cures_nothing(training: Any) -> None:
    life = training()
    for times in (1, 2, 3):
        stands_still(life, STALL)
        assert life.patience == {STALL: times}
        runs_again(life)
        life.wait(until_s=life.now + 3_600.0)
    stands_still(life, STALL)
    assert life.phase is Phase.FAILED


def test_the_time_that_it_stood_still_is_none_of_having_got_past(training: Any) -> None:
    life = training()
    for times in (1, 2, 3):
        stands_still(life, STALL, stalled_s=3_600.0)
        assert life.patience == {STALL: times}
        trains_on(life, None, for_s=3_700.0)
    stands_still(life, STALL, stalled_s=3_600.0)
    assert life.phase is Phase.FAILED


def test_patience_is_that_of_one_restart_once_it_got_past_for_long(training: Any) -> None:
    life = training()
    for _ in range(3):
        stands_still(life, STALL)
        runs_again(life)
    life.progress(None)
    assert life.patience == {STALL: 3}
    life.dies(1, signal=9)
    trains_on(life, None, for_s=life.job.plan.user.window_s + 1)
    assert life.patience == {STALL: 1}


@pytest.mark.parametrize(("named", "nodes", "hypothesis"), [(3, 8, "node"), (1, 8, "passing")])
def test_one_that_names_nobody_is_put_down_to_the_node_of_nearly_all_others(
    training: Any, named: int, nodes: int, hypothesis: str
) -> None:
    life = training(nodes=nodes)
    for times in range(named):
        stands_still(life, f"all_reduce #{times}", stuck=True)
        runs_again(life)
    stands_still(life, "all_reduce #90", rank=None, stuck=True)
    table = life.incident.table
    assert (table.chosen, table.act) == (hypothesis, "restart")
    why = next(row.why for row in table.rows if row.hypothesis == "node")
    assert ("no other node may take its place" in why) == (hypothesis == "node")
    assert life.evicted == []


def test_a_standstill_that_is_put_down_to_a_node_names_it_for_no_other(training: Any) -> None:
    """Else what is assumed would make itself ever more likely."""
    life = training(nodes=8)
    for step in range(6):
        stands_still(life, f"evaluate (train.py:31), step {step}", rank=2 if step < 3 else None)
        runs_again(life)
    about = [fact.about for fact in life.job.facts]
    assert [each.node.name for each in about] == ["n1"] * 6
    assert [each.assumed for each in about] == [False] * 3 + [True] * 3
    assert [each.named is None for each in about] == [False] * 3 + [True] * 3
