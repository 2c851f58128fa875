"""The words of `holdfast stack`: which ranks are meant, and how blocks are told."""

from typing import Any

import pytest

from holdfast.cli import stack
from holdfast.cli.errors import Stopped
from holdfast.cli.main import main
from holdfast.cli.stack import blocks, in_short, missing, numbers


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


def test_in_short_only_main_threads_count() -> None:
    def shown(rank: int, other: str) -> dict[str, Any]:
        main_thread = 'Thread (idle): "MainThread"\n    f (a.py:1)'
        child = 'Child process\nThread (idle): "MainThread"\n    work (loader.py:7)'
        return {"ranks": [rank], "text": f"{other}\n{main_thread}\n{child}"}

    pulse, watchdog = 'Thread (active): "pulse"\n    g (b.py:2)', 'Thread (idle): "nccl"'
    bare = {"ranks": [2], "text": "Thread (idle)\n    h (c.py:3)"}
    told = in_short({"stacks": [shown(0, pulse), shown(1, watchdog), bare], "missing": []})
    assert [*blocks(told)] == [
        '2 ranks: 0-1\n  Thread (idle): "MainThread"\n      f (a.py:1)',
        "rank 2\n  Thread (idle)\n      h (c.py:3)",
    ]


class Asked:
    """A driver with two jobs, that notes whose stacks are taken."""

    def __init__(self) -> None:
        self.took: list[tuple[str, Any]] = []

    def get(self, where: str, **_query: Any) -> Any:
        ranks = {"old": 2, "new": 3}
        if where.endswith("/jobs"):
            return {"items": [{"name": n, "ranks": r} for n, r in ranks.items()], "continue": None}
        name = where.rpartition("/")[2]
        return {"name": name, "ranks": ranks[name]}

    def post(self, where: str, body: Any) -> Any:
        self.took.append((where.split("/")[-2], body["ranks"]))
        text = 'Thread (idle): "MainThread"\nThread (idle): "pulse"'
        return {"attempt": 1, "stacks": [{"ranks": body["ranks"], "text": text}], "missing": []}


@pytest.mark.parametrize(
    ("typed", "took", "all_threads"),
    [
        ([], ("new", [0, 1, 2]), False),
        (["1"], ("new", [1]), True),
        (["0-1", "2"], ("new", [0, 1, 2]), True),
        (["old"], ("old", [0, 1]), False),
        (["old", "1"], ("old", [1]), True),
    ],
    ids=["all", "one", "some", "all of a job", "one of a job"],
)
def test_job_and_ranks_may_be_left_out(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: list[str],
    took: tuple[str, list[int]],
    all_threads: bool,
) -> None:
    driver = Asked()
    monkeypatch.setattr(stack, "client", lambda *_of: driver)
    assert main(["stack", *typed]) == 0
    said = capsys.readouterr().out
    assert driver.took == [took]
    assert said.startswith("new, attempt 1\n\n") is (took[0] == "new")
    assert ("pulse" in said) is all_threads
