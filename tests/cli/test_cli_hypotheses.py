"""The table of what may have been behind a fault, and that of the fleet's worst."""

import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import asking, hypotheses, worst
from holdfast.cli.tabular import Format

ROWS: list[dict[str, Any]] = [
    {"hypothesis": name, "open": act is not None, "why": why, "act": act, "cost_s": cost_s}
    for name, why, act, cost_s in (
        ("passing", "it came 3 times after step 40", None, None),
        ("link", "no two nodes are known that cannot reach each other", None, None),
        ("node", "3 of 4 faults came on node-3, of 8 nodes", "move-warm", 15.0),
        ("version", "it came 3 times, and version 1 ran before", "version-before", 135.0),
        ("user", "nothing came twice at its site", None, None),
    )
]
EMPTY: dict[str, Any] = {"nodes": [], "links": [], "versions": []}
WORST: dict[str, Any] = {
    "nodes": [
        {
            "node": "node-7",
            "suspicion": 1.52,
            "accused_by": ["speech v2", "a person"],
            "strikes": 3,
            "tests": 1,
            "state": "quarantined",
        }
    ],
    "links": [
        {
            "source": "node-1",
            "target": "node-2",
            "suspicion": 1.0,
            "convicted": True,
            "accused_by": ["speech v2"],
            "ago_s": 90.0,
        }
    ],
    "versions": [{"job": "speech", "version": 2, "faults": 4, "ago_s": 7_200.0}],
}


def chosen(name: str | None) -> list[dict[str, Any]]:
    return [{**row, "chosen": row["hypothesis"] == name} for row in ROWS]


def on_a_terminal(columns: int, patch: pytest.MonkeyPatch, show: Callable[[], None]) -> list[str]:
    """The lines that it prints there."""
    ours, theirs = os.openpty()
    patch.setenv("COLUMNS", str(columns))
    patch.setenv("TERM", "xterm")
    with open(theirs, "w") as terminal, patch.context() as patched:
        patched.setattr(sys, "stdout", terminal)
        show()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", _all_of(ours).decode())
    os.close(ours)
    return [line.rstrip() for line in plain.splitlines()]


def _all_of(terminal: int) -> bytes:
    """What was printed there, which comes in pieces; an error says that nobody has it any more."""
    said = b""
    with suppress(OSError):
        while piece := os.read(terminal, 65_536):
            said += piece
    return said


@pytest.mark.parametrize("columns", [80, 40])
def test_the_table_fits_the_terminal_and_marks_what_was_chosen(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = on_a_terminal(columns, monkeypatch, lambda: hypotheses.show(chosen("node")))
    assert max(map(len, lines)) <= columns
    assert lines[1].split()[:2] == ["MAY", "BE"]
    assert [line[2:10] for line in lines if line.startswith("> ")] == ["the node"]
    said = " ".join(" ".join(lines).split())
    assert all(word in said for word in ("use standby", "15 s", "2 min"))


def test_off_a_terminal_each_hypothesis_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    hypotheses.show(chosen("node"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "What the last fault may have been:", "which may be another node's"
    assert len(lines) == 4 + len(ROWS)
    assert lines[-2:] == [
        "(> was acted on, closed is not tried)",
        "(cost: how long it was expected to take)",
    ]
    (own,) = [line for line in lines if line.startswith(">")]
    assert re.split(r"\s{2,}", own[2:].strip()) == [
        *("the node", "use standby", "15 s", "3 of 4 faults came on node-3, of 8 nodes")
    ]


def test_it_says_so_where_nothing_is_left_open_or_nothing_was_judged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hypotheses.show([])
    assert capsys.readouterr().out == ""
    hypotheses.show([{**row, "open": False} for row in chosen(None)])
    *_, legend, _, choice = capsys.readouterr().out.splitlines()
    assert (legend, choice.partition(":")[0]) == ("(closed is not tried)", "Nothing is left open")
    hypotheses.show(chosen("version"))
    assert "used up: what is open before it was not tried." in capsys.readouterr().out
    stays = [{**row, "act": row["act"] and "restart"} for row in chosen("version")]
    hypotheses.show(stays)
    assert "no other node may cure" in capsys.readouterr().out.splitlines()[-1]
    hypotheses.show(chosen(None))
    assert "restarts were used up" in capsys.readouterr().out.splitlines()[-1]


class Asked:
    def __init__(self, found: dict[str, Any]) -> None:
        self._found = found

    def worst(self, most: int) -> dict[str, Any]:
        assert most == 3
        return self._found


def shown(found: dict[str, Any], patch: pytest.MonkeyPatch, *, json: bool = False) -> None:
    patch.setattr(asking, "source", lambda *_: (Asked(found), True))
    worst.show(3, Format.TABLE, None, Path("x"), json=json)


def test_the_worst_are_three_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown(WORST, monkeypatch)
    rows = [re.split(r"\s{2,}", line.strip()) for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["NODE", "SUSPICION", "STRIKES", "TESTS", "STATE", "ACCUSED BY"]
    assert rows[1] == ["node-7", "1.5", "3", "1", "quarantined", "speech v2, a person"]
    assert rows[3] == ["node-1", "node-2", "90 s ago", "tests, speech v2"]
    assert rows[5] == ["speech", "2", "4", "2 h 0 min ago"]


def test_where_nothing_is_held_against_anybody_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown(EMPTY, monkeypatch)
    assert capsys.readouterr().out == "nothing is held against any node\n"


def test_the_worst_fit_40_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = on_a_terminal(40, monkeypatch, lambda: shown(WORST, monkeypatch))
    assert max(map(len, lines)) <= 40
    said = [line.split() for line in lines]
    assert said[1][:2] == ["node-7", "1.5"], "names are whole"
