"""A standstill and its end are told both, or neither: in each attempt once."""

from typing import Any

from holdfast.driver.core import events as e
from holdfast.driver.follow.feed import expectation
from holdfast.driver.formats.encode import decode, encode
from holdfast.protocol.faults import Finding, Kind, Pause, Weight


def told(
    life: Any,
    kind: Kind,
    rank: int | None = None,
    summary: str = "",
    weight: Weight = Weight.REPORT,
) -> None:
    finding = Finding(
        kind=kind,
        weight=weight,
        job="job",
        epoch=life.job.epoch,
        node="n0" if rank is not None else None,
        rank=rank,
        summary=summary or kind,
    )
    life.do(e.Found(finding=finding), after_s=5.0)


def stands_and_goes_on(life: Any, rank: int = 0) -> None:
    told(life, Kind.STANDSTILL, rank)
    told(life, Kind.GOES_ON)


def seen(life: Any) -> list[Kind]:
    """A line for a person each."""
    incidents = sorted(life.state.incidents.values(), key=lambda each: each.id)
    return [each.kind for each in incidents if each.kind in (Kind.STANDSTILL, Kind.GOES_ON)]


def test_of_one_rank_that_pauses_again_and_again_each_is_told_once(training) -> None:
    life = training()
    for _ in range(5):
        stands_and_goes_on(life)
    assert seen(life) == [Kind.STANDSTILL, Kind.GOES_ON]


def test_what_is_said_of_one_anew_is_what_its_incident_says(training) -> None:
    life = training()
    told(life, Kind.STANDSTILL, 0, "without a step for 600 s it is restarted")
    told(life, Kind.STANDSTILL, 0, "if nothing moves for 15 s it is restarted")
    assert seen(life) == [Kind.STANDSTILL]
    (incident,) = (each for each in life.state.incidents.values() if each.kind is Kind.STANDSTILL)
    assert incident.summary == "if nothing moves for 15 s it is restarted"


def test_of_another_rank_both_are_told(training) -> None:
    life = training()
    stands_and_goes_on(life)
    stands_and_goes_on(life, rank=1)
    assert seen(life) == [Kind.STANDSTILL, Kind.GOES_ON] * 2


def test_a_later_attempt_has_its_own(training) -> None:
    life = training()
    told(life, Kind.STANDSTILL, 0)
    for own_step in (10, 20):
        life.dies(1, exception="ValueError: bad", own_step=own_step)
        life.answer()
        told(life, Kind.STANDSTILL, 0)
    told(life, Kind.GOES_ON)
    assert seen(life) == [Kind.STANDSTILL] * 3 + [Kind.GOES_ON]


def hangs(life: Any) -> None:
    told(life, Kind.HANG, 0, "rank 0 holds the job up", Weight.RESTART)


def test_what_was_said_and_is_acted_on_later_is_one_incident(training) -> None:
    life = training()
    told(life, Kind.STANDSTILL, 0, "if nothing moves for 15 s it is restarted")
    (said,) = life.state.incidents.values()
    hangs(life)
    (acted,) = life.state.incidents.values()
    assert (acted.id, acted.opened) == (said.id, said.opened)
    assert (acted.kind, acted.faults, acted.open) == (Kind.HANG, 1, True)
    assert life.job.incident == acted.id
    assert (acted.summary, acted.found_s) == ("rank 0 holds the job up", life.now)


def test_one_that_ended_by_itself_is_another(training) -> None:
    life = training()
    stands_and_goes_on(life)
    hangs(life)
    assert [each.kind for each in life.state.incidents.values()] == [
        Kind.STANDSTILL,
        Kind.GOES_ON,
        Kind.HANG,
    ]


def test_a_death_while_it_stands_is_another(training) -> None:
    life = training()
    told(life, Kind.STANDSTILL, 0)
    life.dies(1, exception="ValueError: bad", own_step=10)
    life.answer()
    assert len(life.state.incidents) == 2
    hangs(life)
    assert [each.kind for each in life.state.incidents.values()].count(Kind.STANDSTILL) == 1


def test_what_paused_and_ended_is_known_to_the_driver_that_takes_over(training) -> None:
    life = training()
    known = {"evaluate (train.py:31)": Pause(lasted_s=14.0, idle_s=14.0)}
    finding = Finding(
        kind=Kind.GOES_ON,
        weight=Weight.REPORT,
        job="job",
        epoch=life.job.epoch,
        summary="it goes on",
        pauses=known,
    )
    life.do(e.Found(finding=finding))
    told(life, Kind.GOES_ON)  # of another detector, which knows of no pauses
    assert expectation(life.job).pauses == known
    assert decode(encode(life.state)).jobs["job"].pauses == known
