"""What `holdfast status` tells of how ranks ended, and of the store."""

from typing import Any

import pytest

from holdfast.cli import status as shown
from holdfast.cli.status import lines_of
from holdfast.page import status


@pytest.mark.parametrize(
    ("first", "told"),
    [
        pytest.param(
            {"code": 1, "signal": None, "more": 4_095},
            "rank 3 on node-2 with exit code 1, and 4,095 more",
            id="many",
        ),
        pytest.param(
            {"code": None, "signal": 9, "more": 0}, "rank 3 on node-2 by signal 9", id="one-alone"
        ),
    ],
)
def test_the_end_that_explains_the_others_comes_with_their_number(
    first: dict[str, Any], told: str
) -> None:
    ended = {"phase": "Failed", "exit": {"rank": 3, "node": "node-2", "message": "", **first}}
    assert lines_of(status.ended(ended)) == [f"ended   {told}"]
    assert status.ended({**ended, "phase": "Running"}) == []


FAILED = {"kind": "store-failed", "summary": "checkpoints of speech do not reach their store: full"}
BACK = {"kind": "store-back", "summary": "checkpoints of speech reach their store again"}
APART = {"kind": "store-not-shared", "summary": "b does not see what a left"}
SKIPPED = {"kind": "save-skipped", "summary": "1 save of speech skipped on b so far"}


@pytest.mark.parametrize(
    ("reports", "told"),
    [
        pytest.param([FAILED, SKIPPED], [FAILED], id="and-another-report-after-it"),
        pytest.param([FAILED, BACK], [], id="it-works-again"),
        pytest.param([APART, FAILED, BACK], [APART], id="two-troubles"),
        pytest.param([SKIPPED], [], id="no-trouble-of-the-store"),
    ],
)
def test_what_is_wrong_with_the_store_is_told_as_long_as_it_is(
    reports: list[dict[str, Any]], told: list[dict[str, Any]]
) -> None:
    job = {"phase": "Running", "stored_step": 1_150, "stored_s": 6.3}
    more = [f"        {each['summary']}" for each in told]
    assert lines_of(status.stored(job, reports)) == ["store   step 1,150, 6.3 s ago", *more]
    point = {"step": 12, "where": "memory", "status": "tainted", "why": "rank 0 died of it"}
    points = [point, {**point, "status": "whole", "why": ""}]
    not_used = "        step 12 in memory is not used: rank 0 died of it"
    told = lines_of(status.stored(job | {"restore_points": points}, reports))
    assert told == ["store   step 1,150, 6.3 s ago", not_used, *more]
    assert lines_of(status.stored(job | {"phase": "Failed"}, reports)) == [
        "store   step 1,150, 6.3 s ago"
    ]


SLOW = {"kind": "slow", "node": "a", "rank": 2, "summary": "rank 2 on a holds its peers up"}
SLOWER = {**SLOW, "summary": "rank 2 on a holds its peers up: still"}
OTHER = {**SLOW, "rank": 3, "summary": "rank 3 on a holds its peers up"}
IN_STEP = {**SLOW, "kind": "keeps-pace", "summary": "rank 2 on a keeps pace with its peers again"}


@pytest.mark.parametrize(
    ("reports", "told"),
    [
        pytest.param([SLOW, FAILED], [SLOW], id="and-another-report-after-it"),
        pytest.param([SLOW, OTHER, SLOWER], [SLOWER, OTHER], id="two-of-them"),
        pytest.param([SLOW, IN_STEP], [], id="it-keeps-pace-again"),
    ],
)
def test_who_holds_its_peers_up_is_told_as_long_as_it_does(
    reports: list[dict[str, Any]], told: list[dict[str, Any]]
) -> None:
    lines = [f"slow    {each['summary']}" for each in told]
    assert lines_of(status.standing({"phase": "Running"}, reports)) == lines
    assert status.standing({"phase": "Succeeded"}, reports) == []


def test_a_link_that_holds_the_job_up_is_told_until_none_does() -> None:
    slow = {"kind": "link-slow", "node": "a", "rank": None, "summary": "the link of a holds it up"}
    well = {"kind": "link-well", "node": None, "rank": None, "summary": "no link does any more"}
    assert lines_of(status.standing({"phase": "Running"}, [slow])) == [f"link    {slow['summary']}"]
    assert lines_of(status.standing({"phase": "Running"}, [slow, SLOW, well])) == [
        f"slow    {SLOW['summary']}"
    ], "of another kind nothing is taken back"


def test_an_attempt_is_told_with_its_version_and_layout() -> None:
    layout = {"number": 2, "nodes": 4}
    job: dict[str, Any] = {"attempt": 3, "version": 1, "ranks": 8, "layout": layout}
    assert lines_of(status.attempt(job)) == ["attempt 3 of version 1: 8 ranks on 4 nodes, layout 2"]
    between = job | {"layout": {**layout, "number": 0}}
    assert lines_of(status.attempt(between)) == ["attempt 3 of version 1: 8 ranks on 4 nodes"]
    assert lines_of(status.attempt(job | {"attempt": 0})) == []
    assert lines_of(status.attempt({"attempt": 3})) == [], "a driver of before tells of none"


def test_which_process_each_rank_is_is_told_of_few() -> None:
    places = [{"pids": {"0": 4_242, "1": 4_243}}, {"pids": {"2": 77}}, {}]
    job = {"phase": "Running", "places": places}
    assert shown._pids(job) == ["pids    rank 0: 4242, rank 1: 4243, rank 2: 77"]
    assert shown._pids(job | {"phase": "Failed"}) == []
    many = {str(rank): rank for rank in range(shown.TOLD_PIDS + 1)}
    assert shown._pids(job | {"places": [{"pids": many}]}) == []
