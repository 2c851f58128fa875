"""Which ranks are meant by what somebody typed, and what is said of stacks that came."""

from typing import Any

import pytest

from holdfast.page import stacks


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("5", [5]),
        ("0-3, 7", [0, 1, 2, 3, 7]),
        ("2 2,1-2", [1, 2]),
        ("0-1023", list(range(1_024))),
        ("", None),
        ("3-1", None),
        ("all", None),
        ("0-1024", None),
        ("0-1023, 1024", None),
        (" ".join(f"{at}000-{at}999" for at in range(1, 2_000)), None),
    ],
    ids=lambda each: str(each)[:12],
)
def test_ranks_are_numbers_and_spans_and_no_more_than_are_asked_about_at_once(
    typed: str, meant: list[int] | None
) -> None:
    assert stacks.numbers(typed) == meant


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ([], "No stack was taken."),
        ([[5]], "The stack of one rank."),
        ([[0, 1]], "All show the same stack: 2 ranks."),
        ([[0], [1, 2]], "2 different stacks of 3 ranks."),
    ],
)
def test_it_is_said_how_many_are_alike(groups: list[list[int]], said: str) -> None:
    told: dict[str, Any] = {"stacks": [{"ranks": ranks, "text": "x"} for ranks in groups]}
    assert stacks.said(told) == said
