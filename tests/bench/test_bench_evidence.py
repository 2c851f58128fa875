"""The benchmark of evidence: both players, an earlier driver beside them, rows and goals."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.bench.evidence.benchmark import SOURCES, measure, run, systems_beside
from holdfast.bench.evidence.goals import goals
from holdfast.bench.evidence.rows import ORACLE, Row, compared, row
from holdfast.bench.figures import Incomplete
from holdfast.lab.simulator.cases.books import Life

ROOT = Path(__file__).parents[2]
LADDER = "213f972"
"""The commit before the book: docs/decisions/what-is-behind-a-fault.md has its figures."""

LIFE = Life(
    case="lemon",
    seed=0,
    nodes=4,
    ended="running",
    curable=True,
    right=True,
    named="node",
    named_right=True,
    faults=4,
    moves=1,
    innocent_moves=0,
    quarantined=0,
    innocent_quarantined=0,
    lost_s=20.0,
    repeated=3,
)


def _measured(cases: Sequence[str], seeds: int, before: str = "") -> list[Row]:
    rows: list[Row] = []
    measure(cases, seeds, before, rows.extend, lambda what: None)
    return rows


def test_the_driver_and_the_oracle_play_the_same_seeds() -> None:
    rows = _measured(["lemon", "user-always"], 3)
    assert [(each.case, each.system, each.lives) for each in rows] == [
        ("lemon", "oracle", 3),
        ("lemon", "clocked", 3),
        ("lemon", "holdfast", 3),
        ("user-always", "oracle", 3),
        ("user-always", "clocked", 3),
        ("user-always", "holdfast", 3),
    ]
    assert all(each.faults >= 1 for each in rows)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_an_earlier_driver_plays_in_today_s_worlds() -> None:
    with systems_beside("HEAD") as systems:
        assert list(systems) == ["oracle", "clocked", "holdfast", "HEAD"]
        before = systems["HEAD"] / "holdfast"
        cases = Path("lab/simulator/cases")
        assert (before / cases).resolve() == ROOT / cases
        assert (before / "lab").resolve() != ROOT / "lab"
        assert (before / "driver").resolve() != ROOT / "driver"
    by_system = {each.system: each for each in _measured(["passing"], 2, before="HEAD")}
    ours = replace(by_system["holdfast"], cpu_ms=0.0, system="")
    assert replace(by_system["HEAD"], cpu_ms=0.0, system="") == ours
    assert systems["holdfast"] == SOURCES


def _has(commit: str) -> bool:
    """Whether this is a checkout with that much history."""
    known = ["git", "-C", str(ROOT), "cat-file", "-e", f"{commit}^{{commit}}"]
    return subprocess.run(known, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _has(LADDER), reason="its history does not go back so far")
def test_the_ladder_of_before_plays_in_today_s_worlds_too() -> None:
    by_system = {each.system: each for each in _measured(["lemon"], 2, before=LADDER)}
    assert by_system[LADDER].lives == 2


def test_a_commit_that_is_none_is_refused() -> None:
    with pytest.raises(Incomplete, match="'no-such-commit' is no commit"):
        _measured(["passing"], 1, before="no-such-commit")


def test_a_driver_that_cannot_play_is_told_in_a_sentence() -> None:
    with pytest.raises(Incomplete, match=r"no-such-case with oracle, seeds from 0: KeyError"):
        _measured(["no-such-case"], 1)


def test_json_is_one_line_with_rows_and_goals(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cases=["passing"], seeds=2, before="", as_json=True) == 0
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert [each["system"] for each in found["rows"]] == ["oracle", "clocked", "holdfast"]
    assert {each["system"] for each in found["goals"]} == {"holdfast"}
    assert "case 1 of 1" in told.err


def test_people_get_a_table_and_each_goal_with_what_missed_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(cases=["user-always"], seeds=2, before="", as_json=False) == 0
    told = capsys.readouterr().out
    assert "user-always" in told
    assert "holdfast: met, innocents quarantined: 0" in told


# ---------------------------------------------------------------- rows and goals


def test_a_row_counts_lives_and_faults() -> None:
    bad = replace(LIFE, seed=1, ended="failed", right=False, innocent_moves=1, moves=1, lost_s=40.0)
    found = row("lemon", "holdfast", [LIFE, bad], cpu_s=0.01)
    assert (found.right_percent, found.failed_percent, found.faults) == (50.0, 50.0, 4.0)
    assert (found.innocents_moved_a_fault, found.moves_a_fault) == (1 / 8, 2 / 8)
    assert (found.lost_median_s, found.cpu_ms) == (30.0, 5.0)


def test_time_is_compared_where_both_came_right() -> None:
    theirs = [replace(LIFE, lost_s=10.0), replace(LIFE, seed=1, lost_s=1_000.0, right=False)]
    own = [LIFE, replace(LIFE, seed=1, lost_s=5.0)]
    assert compared(own, theirs) == (2.0, 2.0)
    assert compared([replace(LIFE, right=False)], theirs) == (None, None)
    assert compared(own, [replace(LIFE, lost_s=0.0)]) == (None, None)


def test_each_life_is_compared_with_its_own_and_not_where_the_oracle_mostly_lost_nothing() -> None:
    own = [replace(LIFE, seed=k, lost_s=lost_s) for k, lost_s in enumerate((10.0, 100.0, 30.0))]
    theirs = [replace(LIFE, seed=k, lost_s=lost_s) for k, lost_s in enumerate((10.0, 10.0, 60.0))]
    assert compared(own, theirs) == (1.0, 140.0 / 80.0), "of 1, 10 and 0.5 times"
    nothing = [theirs[0], *(replace(life, lost_s=0.9) for life in theirs[1:])]
    assert compared(own, nothing) == (None, None)
    assert compared(own[:2], nothing) == (1.0, 1.0)


MOVED = "innocents moved: at most 0.05 a fault"
LOST = "time lost: at most 1.2 times the oracle's, in the median and in all"


def _row(case: str, system: str, **figures: float) -> Row:
    return replace(row(case, system, [replace(LIFE, case=case)], cpu_s=0.0), **figures)


@pytest.mark.parametrize(
    ("case", "figures", "goal"),
    [
        ("lemon", {"right_percent": 94.0}, "running or rightly failed: 95% of the oracle's"),
        ("lemon", {"named_percent": 94.0}, "cause named: 95% of the oracle's"),
        ("lemon", {"innocents_quarantined": 1}, "innocents quarantined: 0"),
        ("lemon", {"innocents_moved_a_fault": 0.06}, MOVED),
        ("lemon", {"times_oracle": 1.3}, LOST),
        ("lemon", {"times_oracle_in_all": 1.3}, LOST),
        ("evaluation", {"failed_percent": 0.1}, "long evaluations: 0 failed"),
        (
            "two-lemons",
            {"curable_running_percent": 99.0},
            "two lemons of four: running, each life that two other nodes are left for",
        ),
        (
            "crashing-code",
            {"moves_a_fault": 0.06},
            "crashing code that advances: at most 1 move in 20 crashes",
        ),
        (
            "bad-version",
            {"faults_most": 7},
            "bad version: found within 6 faults, in each life",
        ),
    ],
)
def test_each_goal_is_missed_by_the_case_that_misses_it(
    case: str, figures: dict[str, float], goal: str
) -> None:
    usual = {"moves_a_fault": 0.0}
    rows = [_row(case, ORACLE), _row(case, "holdfast", **(usual | figures))]
    missed = [aim for aim in goals(rows) if not aim.met]
    assert [aim.what for aim in missed] == [goal]
    assert missed[0].missed_by[0].startswith(f"{case} ")
    well = [_row(case, ORACLE), _row(case, "holdfast", **usual)]
    assert all(aim.met for aim in goals(well))
