"""Curves of a job as lines: where they are interrupted, what is marked, what is said in words."""

from typing import Any

from holdfast.page import curves


def told(**changes: Any) -> dict[str, Any]:
    """Ten moments, a second apart, of a loss that falls."""
    return {
        "at_s": [float(at) for at in range(10)],
        "every_s": 1.0,
        "step": list(range(10)),
        "loss": [10.0 - at for at in range(10)],
        "step_s": [0.5] * 10,
        "memory_bytes": [None] * 10,
        "gpu_memory_bytes": [None] * 10,
        "marks": [],
        "missing": [],
        **changes,
    }


def test_a_line_says_in_words_what_it_shows_and_what_was_never_told_has_none() -> None:
    found = curves.of(told())
    assert [line.name for line in found.lines] == ["Loss", "Seconds a step"]
    assert found.lines[0].says == "1 at last; 10 at first, 1 to 10"
    assert len(found.lines[0].paths) == 1
    assert found.heads == ["at", "step", "Loss", "Seconds a step"]
    assert found.rows[0] == ["9.0 s", "9", "1", "0.5 s"]
    assert len(found.rows) == 10


def test_a_line_is_interrupted_where_nobody_noted_it_and_where_none_was_told() -> None:
    at_s = [0.0, 1.0, 2.0, 60.0, 61.0, 62.0, 63.0, 64.0, 65.0, 66.0]
    assert len(curves.of(told(at_s=at_s)).lines[0].paths) == 2
    losses = [1.0, None, 1.0, None, *[1.0] * 6]
    assert len(curves.of(told(loss=losses)).lines[0].paths) == 3


def test_a_fault_is_marked_where_it_was_for_as_long_as_it_cost() -> None:
    fault = {"incident": 3, "at_s": 3.0, "until_s": 6.0, "says": "rank 1 died"}
    (mark,) = curves.of(told(marks=[fault])).marks
    assert (mark.x, mark.wide) == (curves.WIDE / 3, curves.WIDE / 3)
    assert (mark.incident, mark.when, mark.says) == (3, "3.0 s", "rank 1 died")
    (mark,) = curves.of(told(marks=[{**fault, "until_s": None}])).marks
    assert mark.wide == 0
    (late,) = curves.of(told(marks=[{**fault, "at_s": 18.0, "until_s": None}])).marks
    assert late.x == curves.WIDE


def test_without_a_moment_there_are_no_lines_and_it_says_why() -> None:
    columns: Any = {
        name: [] for name in ("at_s", "step", "loss", "step_s", "memory_bytes", "gpu_memory_bytes")
    }
    found = curves.of(told(**columns, missing=["nothing was noted of it"]))
    assert (found.lines, found.rows) == ([], [])
    assert found.missing == ["nothing was noted of it"]


def test_a_long_table_has_the_first_and_the_last_moment() -> None:
    count = 400
    columns: Any = {
        name: [1.0] * count for name in ("loss", "step_s", "memory_bytes", "gpu_memory_bytes")
    }
    at_s = [float(at) for at in range(count)]
    found = curves.of(told(at_s=at_s, step=list(range(count)), **columns))
    assert len(found.rows) == curves.TABLE_ROWS
    assert [found.rows[0][1], found.rows[-1][1]] == ["399", "0"]
