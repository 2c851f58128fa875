"""Rows of ranks of a job that has ended: of where they were, and of their last spans."""

from holdfast.bench.page import made
from holdfast.cli.past_ranks import rows


def test_what_each_was_at_when_it_ended_is_told_of_its_last_spans() -> None:
    answer = made.spans(4, steps=20, stopped=2)
    found = rows(4, 2, lambda rank: f"n-{rank // 2}", answer)
    assert [(row["rank"], row["local_rank"], row["node"]) for row in found] == [
        (0, 0, "n-0"),
        (1, 1, "n-0"),
        (2, 0, "n-1"),
        (3, 1, "n-1"),
    ]
    assert {row["state"] for row in found} == {"ended"}
    assert {row["phase"] for row in found} == {"all_reduce"}
    assert found[0]["step"] > found[2]["step"] > 0
    assert found[0]["spent"]["steps"] > 0


def test_one_that_is_in_a_span_within_another_is_at_the_inner_one() -> None:
    inner = {"rank": 0, "attempt": 1, "node": "n", "kind": "save", "name": "saves", "step": 3}
    outer = {**inner, "kind": "phase", "name": "checkpoint", "start_s": 1.0, "took_s": 2.0}
    spans = [outer, {**inner, "start_s": 2.0, "took_s": 1.0}, {**outer, "start_s": 0.0}]
    answer = {"job": "j", "from_s": 0.0, "to_s": 3.0, "spans": spans}
    assert rows(1, 1, lambda _: "", answer)[0]["phase"] == "saves"


def test_of_whom_nothing_is_known_there_is_no_row() -> None:
    answer = made.spans(2, steps=2)
    found = rows(4, 2, lambda _: "", answer)
    assert [(row["rank"], row["node"]) for row in found] == [(0, "node-0"), (1, "node-0")]
    nothing = {**answer, "spans": []}
    assert rows(4, 2, lambda _: "", nothing) == []
    assert rows(1, 2, lambda _: "n", nothing) == [
        {"rank": 0, "local_rank": 0, "node": "n", "state": "ended"}
    ]
