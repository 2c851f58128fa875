"""Replicas that hold no longer the same: told once an epoch, and of whom."""

from typing import Any

import pytest

from holdfast.driver.core.faults.fault import fault_of
from holdfast.driver.watch import Expectation
from holdfast.driver.watch.replicas_unlike import judge
from holdfast.protocol.faults import Blame, Finding, Kind, Weight
from holdfast.protocol.messages import Observed, Seat, Unlike

NAMED = Unlike(step=20, since=10, tensor="model.w", tensors=3, ranks=(0, 1, 2), odd=2)


def expected(epoch: int = 1) -> Expectation:
    seats = tuple(Seat(rank=k, local_rank=0, node=f"n{k}", address="::") for k in range(12))
    return Expectation(job="speech", epoch=epoch, seats=seats)


def seen(unlike: Unlike | None, **fields: Any) -> Observed:
    known = {"node": "n0", "incarnation": "a", "sequence": 1, "generation": 1}
    return Observed(**{**known, "job": "speech", "epoch": 1, **fields}, unlike=unlike)


def only(unlike: Unlike) -> Finding:
    _, (found,) = judge({}, seen(unlike), expected())
    assert (found.kind, found.weight) == (Kind.SILENT_CORRUPTION, Weight.REPORT)
    assert fault_of(found).blame is not Blame.USER
    return found


def test_the_one_that_differs_is_named_with_its_node() -> None:
    found = only(NAMED)
    assert (found.rank, found.node, found.step) == (2, "n2", 20)
    assert found.summary.startswith(
        "rank 2 on n2 holds other bytes than ranks 0, 1, which agree, of 'model.w' (and 2 more) at "
        "step 20, of which all had the same at step 10: "
    )
    assert [each.source for each in found.evidence] == ["agent of n0"]


def test_of_two_neither_is() -> None:
    found = only(Unlike(step=20, since=10, tensor="model.w", ranks=(0, 1)))
    assert (found.rank, found.node) == (None, None)
    assert found.summary.startswith(
        "ranks 0, 1 hold different bytes (which is wrong two cannot tell) of 'model.w' at step 20"
    )


def test_of_many_some_are_listed() -> None:
    found = only(Unlike(step=20, since=10, tensor="w", ranks=tuple(range(12)), odd=0))
    assert "than ranks 1, 2, 3, 4, 5, 6, 7, 8, …, which agree" in found.summary


def test_it_is_told_once_an_epoch() -> None:
    told, found = judge({}, seen(NAMED), expected())
    assert len(found) == 1
    assert judge(told, seen(NAMED), expected()) == (told, ())
    assert len(judge(told, seen(NAMED, epoch=2), expected(2))[1]) == 1


@pytest.mark.parametrize(
    ("report", "seats"),
    [
        (seen(None), expected()),
        (seen(NAMED, job=None), expected()),
        (seen(NAMED), None),
        (seen(NAMED), expected(2)),  # where its ranks sat then is not known any more
    ],
)
def test_nothing_is_told_of(report: Observed, seats: Expectation | None) -> None:
    assert judge({}, report, seats) == ({}, ())
