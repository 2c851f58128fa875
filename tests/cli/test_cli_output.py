"""Tables on a terminal of any width, and signs that an encoding does not have."""

import os
import re
import sys
from collections.abc import Sequence

import pytest
from shells import Shell, heard

from holdfast.cli.output import table

pytestmark = pytest.mark.warm

NAME = "pretraining-on-everything-a552"
WHY = "three heartbeats were missed"


def shown_at(
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
    heads: Sequence[str] = ("run", "state", "why"),
    rows: Sequence[Sequence[str]] = ((NAME, "Running", WHY),),
) -> list[str]:
    """The lines of a table on a terminal that is so wide."""
    ours, theirs = os.openpty()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    with open(theirs, "w") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", terminal)
        table(heads, rows)
        said = os.read(ours, 65_536).decode()
    os.close(ours)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", said)
    return [line.rstrip() for line in plain.splitlines()]


def test_a_name_is_whole_on_a_terminal_of_20_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown_at(20, monkeypatch)
    assert lines[0].split() == ["RUN", "STATE", "WHY"]
    assert lines[1].startswith(f"{NAME}  Running  three")
    assert " ".join(line[41:] for line in lines[1:]) == WHY


def test_the_last_column_gives_way_before_a_line_is_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = shown_at(60, monkeypatch)
    assert max(map(len, lines)) <= 60
    assert len(lines) == 3
    assert " ".join(line[41:] for line in lines[1:]) == WHY


def test_a_name_is_never_cut_and_what_is_cut_elsewhere_has_a_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `jobs` in a window beside another."""
    rows = [("a-job-of-a-name-that-is-long", "lost its driver", "50 (again from 40)", WHY)]
    lines = shown_at(40, monkeypatch, ("name", "state", "step", "why"), rows)
    assert lines[1].startswith("a-job-of-a-name-that-is-long  lost its")
    assert lines[1].count("…") == 2


@pytest.mark.cluster
def test_signs_that_stdout_does_not_have_are_replaced(shell: Shell) -> None:
    shell.told["PYTHONIOENCODING"] = "ascii"
    process = shell.start("run", "--", "sh", "-c", "echo up >&2; exec sleep 100")
    heard(process, "up")
    told = shell.holdfast("status")
    assert told.returncode == 0, told.stderr
    assert "nodes   ? node-1\n" in told.stdout


def test_a_table_of_words_is_readable_on_a_terminal_of_40_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `runs`: no word is cut, and columns stand nearer to each other."""
    row = ("a-script-5eb2", "Succeeded", "17 min", "784 KiB")
    lines = shown_at(40, monkeypatch, ("run", "state", "changed", "size"), [row])
    assert lines[1:] == ["a-script-5eb2 Succeeded 17 min  784 KiB"]
