"""The words of `holdfast stack`: which ranks are meant, and how blocks are told."""

import pytest

from holdfast.cli.errors import Stopped
from holdfast.cli.stack import blocks, missing, numbers


@pytest.mark.parametrize(
    ("typed", "ranks"),
    [(["3"], [3]), (["0-2", "7", "1"], [0, 1, 2, 7]), (["5-5"], [5])],
)
def test_ranks_are_numbers_and_spans(typed: list[str], ranks: list[int]) -> None:
    assert numbers(typed) == ranks


@pytest.mark.parametrize("word", ["", "x", "-1", "3-1", "0-999999999", "1,2", "٣-x"])
def test_what_is_no_rank_is_refused(word: str) -> None:
    with pytest.raises(Stopped, match="is no rank"):
        numbers([word])


def test_a_block_says_how_many_ranks_stand_there_and_which() -> None:
    told = {
        "stacks": [
            {"ranks": [0, 1, 2, 5], "text": "Thread (idle)\n    f (a.py:1)"},
            {"ranks": [3], "text": "Thread (idle)"},
        ],
        "missing": [{"rank": 4, "why": "away"}, {"rank": 6, "why": "away"}],
    }
    many, one = blocks(told)
    assert many == "4 ranks: 0-2, 5\n  Thread (idle)\n      f (a.py:1)"
    assert one == "rank 3\n  Thread (idle)"
    assert list(missing(told)) == ["no stack of ranks 4, 6: away"]
