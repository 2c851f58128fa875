"""What keys do in `holdfast top`, and what is seen: both are pure."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from holdfast.cli.top.draw import drawn, snapshot
from holdfast.cli.top.facts import Facts, evicting, stopping
from holdfast.cli.top.screen import Confirming, Order, Reading, Screen, Typing, press
from holdfast.cli.top.terminal import named
from holdfast.driver.adapters.rest.examples import ANSWERS

JOB: dict[str, Any] = ANSWERS["GET /jobs/{job}"]
NODES: list[dict[str, Any]] = ANSWERS["GET /nodes"]["items"]
RANKS: list[dict[str, Any]] = ANSWERS["GET /jobs/{job}/progress"]["ranks"]
INCIDENTS: list[dict[str, Any]] = ANSWERS["GET /incidents"]["items"]
FACTS = Facts(
    at="14:02:03",
    jobs=[{**JOB, "name": "other"}, JOB],
    nodes=NODES,
    job="speech-7b",
    ranks=RANKS,
    incidents=INCIDENTS,
    losses=(3.0, 2.0),
)


def typed(screen: Screen, keys: list[str], facts: Facts = FACTS) -> tuple[Screen, Order | None]:
    order = None
    for key in keys:
        screen, order = press(screen, key, facts)
    return screen, order


def text(screen: Screen, facts: Facts = FACTS, width: int = 80, height: int = 24) -> str:
    return "\n".join(line.text for line in drawn(screen, facts, width, height))


def test_at_80_by_24_all_that_matters_is_seen() -> None:
    said = text(Screen())
    for part in (
        "holdfast  2 jobs · 5 nodes",
        "speech-7b  Running for",
        "step 220",
        "[jobs]",
        "> other",
        "q quit",
    ):
        assert part in said
    lines = drawn(Screen(), FACTS, 80, 24)
    assert len(lines) == 24
    assert max(cell_len(line.text) for line in lines) <= 80


def test_arrows_choose_a_job_and_enter_opens_its_ranks() -> None:
    screen, order = typed(Screen(), ["down", "enter"])
    assert (screen.job, screen.tab, order) == ("speech-7b", 1, None)
    assert "> 0" in text(screen)
    assert typed(screen, ["down", "down", "enter"])[1] == Order("stacks", "speech-7b", ranks=(2,))


def test_to_evict_asks_for_a_reason_then_says_what_it_costs_then_waits_for_y() -> None:
    screen = Screen(tab=1)
    screen, _ = typed(screen, ["down", "down", "e"])
    assert screen.mode == Typing(node="node-2")
    screen, order = typed(screen, ["enter"])
    assert (screen.mode, order) == (Typing(node="node-2"), None), "no reason, no eviction"
    screen, order = typed(screen, [*"fan", "backspace", "n", "enter"])
    assert isinstance(screen.mode, Confirming)
    assert order is None
    said = text(screen)
    assert "speech-7b stops on all of its 8 ranks" in said
    assert "At worst it goes back from step 220 to 200 in its store" in said.replace("\n", " ")
    assert typed(screen, ["y"])[1] == Order("evict", "node-2", reason="fan")
    for key in ("n", "enter", "escape", "e"):
        left, order = typed(screen, [key])
        assert (left.mode, order, left.said) == (None, None, "nothing was done")


def test_to_stop_says_what_it_costs_first() -> None:
    screen, order = typed(Screen(job="speech-7b"), ["s"])
    assert isinstance(screen.mode, Confirming)
    assert order is None
    assert "All of its 8 ranks get SIGTERM" in screen.mode.costs
    assert typed(screen, ["y"])[1] == Order("stop", "speech-7b")
    assert typed(Screen(job="other"), ["s", "y"])[1] == Order("stop", "other"), "not the one before"


def test_stacks_are_those_of_the_rank_or_of_all() -> None:
    assert typed(Screen(), ["k"])[1] == Order("stacks", "speech-7b", ranks=tuple(range(8)))
    assert typed(Screen(tab=1), ["down", "k"])[1] == Order("stacks", "speech-7b", ranks=(1,))
    many = replace(FACTS, ranks=[{**RANKS[0], "rank": rank} for rank in range(2_000)])
    _, order = typed(Screen(), ["k"], many)
    assert order is not None
    assert order.ranks == tuple(range(1_024)), "the driver takes no more"


@pytest.mark.parametrize("row", [0, 20, 38, 39, 99])
def test_a_table_that_is_too_long_is_full_and_has_the_row_that_is_chosen(row: int) -> None:
    facts = replace(FACTS, nodes=[{**NODES[0], "name": f"node-{n}-"} for n in range(40)])
    said = text(Screen(tab=2, rows={2: row}), facts, height=20)
    shown = [line for line in said.splitlines() if line[2:].startswith("node-")]
    first = text(Screen(tab=2), facts, height=20)
    assert len(shown) == sum(line[2:].startswith("node-") for line in first.splitlines()) > 5
    assert f"> node-{min(row, 39)}-" in said


def test_a_job_is_as_ready_as_its_nodes_are_there() -> None:
    [first, *others] = JOB["places"]
    away = {**JOB, "places": [{**first, "connected": False}, *others]}
    there = sum(len(place["ranks"]) for place in others if place["connected"])
    assert 0 < there < JOB["ranks"]
    assert f" {there}/{JOB['ranks']} " in text(Screen(), replace(FACTS, jobs=[away]))


def test_a_reason_is_no_longer_than_the_driver_takes() -> None:
    screen, _ = typed(Screen(tab=1), ["e", *"x" * 600])
    assert screen.mode == Typing(node="node-1", text="x" * 500)


def test_what_is_read_scrolls_and_is_left() -> None:
    screen = Screen(mode=Reading("stacks", [f"line {n}" for n in range(100)]))
    assert "line 0" in text(screen)
    assert "78 more lines" in text(screen)
    below, _ = typed(screen, ["page down"])
    assert "line 0\n" not in text(below)
    assert typed(below, ["escape"])[0].mode is None


def test_a_driver_that_is_away_is_said_and_the_rest_stays() -> None:
    away = replace(FACTS, away="the driver at http://127.0.0.1:1 does not answer.")
    said = text(Screen(), away)
    assert "The driver is away. What follows is of 14:02:03." in said
    assert "speech-7b" in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"standbys": ["node-5"]}, "Its standby node-5 takes over."),
        ({"standbys": []}, "No other node is free: the job waits until one is."),
        ({"stored_step": None}, "its store has no checkpoint yet"),
        ({"step": None}, "It has not told of a step yet."),
    ],
)
def test_what_an_eviction_costs(change: dict[str, Any], said: str) -> None:
    nodes = [{**node, "state": "held"} for node in NODES]
    facts = replace(FACTS, jobs=[{**JOB, **change}], nodes=nodes)
    assert said in evicting(facts, "node-2")


def test_a_node_without_work_costs_nothing() -> None:
    nodes = [{**NODES[0], "job": None}]
    assert "It has no job: nothing stops." in evicting(
        replace(FACTS, nodes=nodes), NODES[0]["name"]
    )
    assert evicting(FACTS, "nobody") == "nobody is not there any more."
    assert stopping(FACTS, "nobody") == ""


def test_how_long_recoveries_take_is_told_of_the_job_whose_incidents_were_asked_for() -> None:
    took = [{**INCIDENTS[0], "faults": 1, "down_s": down_s} for down_s in (9.0, 1.0)]
    asked = replace(FACTS, incidents=took)
    assert "Its last recovery took 9.0 s." in evicting(asked, "node-2")
    assert "recover" not in evicting(replace(asked, job="other"), "node-2")


def test_what_others_wrote_does_nothing_to_the_terminal() -> None:
    nasty = {**JOB, "name": "a\x1b[2Jb", "why": "x\r\ny\x9bz"}
    said = text(Screen(), replace(FACTS, jobs=[nasty], job=nasty["name"]))
    assert not any(ord(sign) < 32 and sign != "\n" for sign in said)
    assert "\x9b" not in said


def test_a_snapshot_has_all_of_it() -> None:
    said = "\n".join(snapshot(FACTS))
    for part in ("JOBS", "RANKS", "NODES", "INCIDENTS", "other", "node-4 is lost"):
        assert part in said


KEYS = st.sampled_from(["up", "down", "left", "right", "enter", "escape", "e", "s", "k", "y", "a"])


@given(st.lists(KEYS, max_size=30), st.integers(1, 200), st.integers(1, 60), st.booleans())
def test_whatever_is_typed_it_fits(keys: list[str], width: int, height: int, empty: bool) -> None:
    facts = Facts() if empty else FACTS
    screen, _ = typed(Screen(), keys, facts)
    lines = drawn(screen, facts, width, height)
    assert len(lines) <= height
    assert all(cell_len(line.text) <= width for line in lines)


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"\x1b[A\x1bOBq", ["up", "down", "q"]),
        (b"\x1b", ["escape"]),
        ("fän\r".encode(), ["f", "ä", "n", "enter"]),
        (b"\x1b[1;5C\x1b[6~", ["page down"]),
        (b"\xff\x7f", ["backspace"]),
    ],
)
def test_bytes_of_terminals_are_keys(data: bytes, keys: list[str]) -> None:
    assert list(named(data)) == keys


@given(st.binary(max_size=30))
def test_any_bytes_are_read_to_their_end(data: bytes) -> None:
    assert len(list(named(data))) <= len(data)
