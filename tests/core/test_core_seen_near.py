"""Words of the kernel and of ranks: signs of what ended there within the same minute."""

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.driver.core.faults.fault import seen_after, seen_before
from holdfast.driver.core.state.model import Fault, Incident
from holdfast.protocol.faults import Blame, Kind, Weight

NOW = 1_000.0
JOB: Any = SimpleNamespace(name="job", nodes=("n0", "n1"))


def incident(kind: Kind, **more: Any) -> Incident:
    known = {"found_s": NOW - 60.0, "signs": ("a sign",), "node": "n0", "jobs": ("job",)}
    return Incident(id=1, opened=1, kind=kind, blame=Blame.UNKNOWN, summary="", **known | more)


def turn(known: Incident) -> Any:
    return SimpleNamespace(now=NOW, incidents={1: known})


def fault(kind: Kind) -> Fault:
    return Fault(kind=kind, weight=Weight.REPORT, summary="", node="n0")


BEFORE = {
    "a line of the kernel, a minute ago": (Kind.KERNEL_FAULT, {}, True),
    "one that was an hour ago": (Kind.KERNEL_FAULT, {"found_s": NOW - 3_600.0}, False),
    "one that ended something itself": (Kind.KERNEL_FAULT, {"faults": 1}, False),
    "a line of a rank": (Kind.LOG_KEYWORD, {"node": None}, True),
    "a line of another job's rank": (Kind.LOG_KEYWORD, {"jobs": ("other",)}, False),
}


@pytest.mark.parametrize("case", BEFORE)
def test_what_was_said_before_it_came(case: str) -> None:
    kind, more, counts = BEFORE[case]
    known = incident(kind, **{"faults": 0} | more)
    found = seen_before(turn(known), JOB, fault(Kind.RANK_CRASHED))
    assert [*found] == ["a sign"] * counts


AFTER = {
    "a line of a rank": ({}, True),
    "one that comes an hour after": ({"found_s": NOW - 3_600.0}, False),
    "a line of another job's rank": ({"jobs": ("other",)}, False),
    "where nothing ended": ({"faults": 0}, False),
}


@pytest.mark.parametrize("case", AFTER)
def test_what_is_said_after_it_came(case: str) -> None:
    more, counts = AFTER[case]
    known = incident(Kind.RANK_CRASHED, **more)
    found = seen_after(turn(known), fault(Kind.LOG_KEYWORD), JOB)
    assert [*found] == [known] * counts
