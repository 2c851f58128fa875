"""A Redis where ranks meet that is away: said once, nobody accused, and once that it is back."""

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.driver.watch import Watch
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Observed

AWAY = "the Redis at h:6379 where ranks meet does not answer (Connection refused)"


def found(watch: Watch, meeting: str | None, **fields: Any) -> list[Finding]:
    known = {"node": "node-0", "incarnation": "a", "sequence": 1, "generation": 1}
    seen = Observed(**{**known, "job": "job", "epoch": 1, **fields}, meeting=meeting)
    findings = [event.finding for event in watch.observed(seen)]  # type: ignore[union-attr]
    assert all(each.weight is Weight.REPORT for each in findings)
    return findings


def kinds(watch: Watch, meeting: str | None, **fields: Any) -> list[Kind]:
    return [each.kind for each in found(watch, meeting, **fields)]


def test_it_is_said_once_and_once_that_it_is_back() -> None:
    watch = Watch()
    assert found(watch, None) == found(watch, "") == []
    (said,) = found(watch, AWAY)
    assert said.kind is Kind.RENDEZVOUS_AWAY
    assert said.summary.startswith(f"{AWAY}, as node-0 sees it: ranks of job that have met go on")
    assert found(watch, AWAY, epoch=2) == found(watch, None, epoch=2) == []
    assert kinds(watch, "", epoch=2) == [Kind.RENDEZVOUS_BACK]
    assert found(watch, "") == []
    assert kinds(watch, AWAY) == [Kind.RENDEZVOUS_AWAY]


def test_another_node_may_say_that_it_is_back() -> None:
    watch = Watch()
    found(watch, AWAY)
    assert found(watch, None, job=None) == []
    assert kinds(watch, "", node="node-1") == [Kind.RENDEZVOUS_BACK]


def test_what_an_earlier_driver_told_is_not_told_again_and_is_taken_back() -> None:
    watch = Watch()
    watch.recall("job", {Kind.RENDEZVOUS_AWAY: "node-0"})
    assert found(watch, AWAY) == []
    assert kinds(watch, "") == [Kind.RENDEZVOUS_BACK]
    assert found(watch, "") == []


@pytest.fixture
def young(cluster: Any) -> Any:
    """A job that has not made its first step, and has half a minute for it; all wait."""
    two = cluster(2, first_step_s=30.0)
    two.running = False
    two.alter = lambda seen: replace(
        seen, step=0, groups=(replace(seen.groups[0], enqueued=1, done=0),), waiting=True
    )
    return two


def test_who_has_not_met_is_accused_of_nothing_while_it_is_away(young: Any) -> None:
    found(young.watch, AWAY)
    assert young.go(120) == []
    found(young.watch, "")
    assert young.go(14) == [], "their time begins anew"
    assert young.go(30)


def test_without_that_they_are(young: Any) -> None:
    assert young.go(60)


def test_who_has_met_is_judged_as_ever(cluster: Any) -> None:
    two = cluster(2)
    assert two.go(10) == []
    found(two.watch, AWAY)
    two.running = False
    two.alter = lambda seen: replace(
        seen, groups=(replace(seen.groups[0], enqueued=seen.groups[0].enqueued + (seen.rank != 2)),)
    )
    assert [each.rank for each in two.go(18) if each.kind is Kind.HANG] == [2]
