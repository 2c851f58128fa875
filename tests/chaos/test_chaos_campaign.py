"""A campaign goes on where its file ends; its matrix and the page of faults say what was seen."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.keeper import state as states
from holdfast.lab.chaos import agreement, campaign, main, matrix, report
from holdfast.lab.chaos.campaign import Ledger, NoCampaign, Played, due
from holdfast.lab.chaos.play import Stage
from holdfast.lab.chaos.scenario import Scenario
from holdfast.lab.chaos.scenarios import SCENARIOS, chosen
from holdfast.lab.chaos.score import Score, Skipped
from holdfast.lab.emulator.leftovers import look
from holdfast.protocol import exitcodes

SCORE = Score(
    fault="rank-killed",
    passed=True,
    detected_s=0.5,
    blame="rank-crashed node-1 rank 0 (unknown)",
    blame_right=True,
    innocent_evicted=0,
    down_s=1.5,
    steps_lost=0,
    steps_lost_told=0,
    loss_equal_bitwise=True,
    rank=0,
    role="rank 0",
    classed="unknown",
    named="victim",
)
TWO = chosen(["rank-killed", "node-lost"], SCENARIOS)


class Counted(Stage):
    """A stage on which nothing is started: each run passes, until the one that is interrupted."""

    def __init__(self, *given: object, cut_at: int = 0, **options: object) -> None:
        super().__init__(*given, **options)  # type: ignore[arg-type]
        self.played: list[tuple[str, int]] = []
        self.cut_at = cut_at

    def left_alone(self, scenario: Scenario) -> object:  # type: ignore[override]
        return None

    def play(self, scenario: Scenario, run: int = 1) -> Score:
        if self.cut_at and len(self.played) + 1 == self.cut_at:
            raise KeyboardInterrupt
        self.played.append((scenario.name, run))
        return msgspec.structs.replace(SCORE, fault=scenario.name, passed=run != 3)


@pytest.fixture
def stages() -> list[Counted]:
    return []


def played(
    folder: Path, stages: list[Counted], *, runs: int, cut_at: int = 0, seed: int = 1
) -> int:
    def on(*given: object, **options: object) -> Stage:
        stages.append(Counted(*given, cut_at=cut_at, **options))
        return stages[-1]

    options = {"as_json": True, "seed": seed, "steps": 60, "folder": folder}
    return main.run(TWO, **options, runs=runs, into=folder / "runs.jsonl", on=on)


def test_a_campaign_goes_on_where_its_file_ends(
    tmp_path: Path, stages: list[Counted], capsys: pytest.CaptureFixture[str]
) -> None:
    assert played(tmp_path, stages, runs=2, cut_at=3) == exitcodes.INTERRUPTED
    file = tmp_path / "runs.jsonl"
    whole = file.read_bytes()
    assert whole.count(b"\n") == 2, "both scenarios once, before any twice"
    file.write_bytes(whole + b'{"number":1,"run":2,"se')
    capsys.readouterr()

    assert played(tmp_path, stages, runs=2) == exitcodes.OK
    assert stages[1].played == [("rank-killed", 2), ("node-lost", 2)]
    said = capsys.readouterr().err
    assert "the last line was torn, and is dropped: 23 bytes" in said
    assert "2 runs are in the file; 2 are left" in said
    assert file.read_bytes().startswith(whole)
    assert [each.run for each in campaign.read(file)[0]] == [1, 1, 2, 2]

    assert played(tmp_path, stages, runs=2) == exitcodes.OK
    assert stages[2].played == []
    assert played(tmp_path, stages, runs=3) == exitcodes.FAILED
    assert played(tmp_path, stages, runs=3) == exitcodes.FAILED, "what failed earlier counts"
    assert stages[4].played == []
    assert played(tmp_path, stages, runs=1, seed=2) == exitcodes.OK, "another seed is another one"
    assert len(stages[5].played) == 2


def test_each_run_has_a_folder_and_what_passed_does_not_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stages: list[Counted]
) -> None:
    for run in (1, 2, 3):
        (tmp_path / main.folder_of(TWO[0], run)).mkdir()
    monkeypatch.setattr(main.tempfile, "mkdtemp", lambda **_: str(tmp_path))

    def on(*given: object, **options: object) -> Stage:
        return Counted(*given, **options)

    main.run(TWO[:1], as_json=True, seed=1, steps=60, folder=None, runs=3, on=on)
    assert [path.name for path in tmp_path.iterdir()] == ["rank-killed-3"], "which failed"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{}\n", "line 1, is no run of chaos: Object missing required field `number`"),
        (b'\n{"number": 1}\n', "line 1, is no run of chaos: Input data was truncated"),
        (b"\xff\xfe\n", "line 1, is no run of chaos"),
    ],
)
def test_a_file_of_something_else_is_left_alone(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "notes"
    file.write_bytes(content)
    with pytest.raises(NoCampaign, match=said):
        Ledger(file)
    assert file.read_bytes() == content
    with pytest.raises(NoCampaign, match="Is a directory"):
        Ledger(tmp_path)


def test_two_campaigns_do_not_share_a_file(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    with Ledger(file), pytest.raises(NoCampaign, match="another campaign goes on in"):
        Ledger(file)
    with Ledger(file) as again:
        assert (again.played, again.torn) == ([], 0)


def test_runs_are_due_scenario_by_scenario() -> None:
    done = [Played(number=1, run=1, seed=1, steps=60, score=SCORE)]
    left = [(each.scenario.name, each.run) for each in due(TWO, 2, done)]
    assert left == [("node-lost", 1), ("rank-killed", 2), ("node-lost", 2)]


def lines(*scores: Score | Skipped) -> Iterator[Played]:
    for run, score in enumerate(scores, 1):
        field = "score" if isinstance(score, Score) else "skipped"
        yield Played(number=1, run=run, seed=1, steps=60, **{field: score})


def test_the_matrix_counts_what_was_blamed_and_bounds_the_share() -> None:
    change = msgspec.structs.replace
    wrong = {"blame_right": False, "passed": False}
    (row,) = matrix.rows(
        lines(
            *[SCORE] * 27,
            change(SCORE, classed="user", named="another", innocent_evicted=2, **wrong),
            change(SCORE, classed="", named="", detected_s=None, down_s=None, **wrong),
            change(SCORE, detected_s=9.5, down_s=20.0, role="another rank"),
            Skipped(fault="rank-killed", skipped="no links"),
        )
    )
    assert (row.n, row.right, row.passed, row.skipped) == (30, 28, 28, 1)
    assert row.classed == {"nothing": 1, "unknown": 28, "user": 1}
    assert (row.another_named, row.innocents) == (1, 2)
    assert row.roles == {"another rank": 1, "rank 0": 29}
    assert (row.named_s, row.running_s) == (matrix.Times(0.5, 9.5), matrix.Times(1.5, 20.0))
    assert row.at_least == pytest.approx(0.805, abs=0.001), "of a table of Clopper and Pearson"
    (right,) = matrix.rows(lines(*[SCORE] * 30))
    assert right.at_least == pytest.approx(0.05 ** (1 / 30), abs=0.001)
    assert "30 of 30 right (at least 90%)" in matrix.sentence(right)


def test_the_table_takes_the_place_of_the_one_before() -> None:
    page = f"# Faults\n\n{report.BEGIN}\nold\n{report.END}\nmore\n"
    rows = matrix.rows(lines(SCORE))
    once = report.written(page, rows)
    assert once == report.written(once, rows)
    assert "\nold\n" not in once
    assert once.startswith("# Faults\n\n<!--")
    assert once.endswith("more\n")
    assert "| 1 | `rank-killed` | 1 | 1 | 1 | 5% |  | 1 |" in once
    widths = {line.count("|") for line in once.splitlines() if line.startswith("|")}
    assert len(widths) == 1
    with pytest.raises(agreement.NoPage, match="no table to be replaced"):
        report.written("# Faults\n", rows)


def test_scenarios_of_which_no_run_was_counted_are_named_below_the_table() -> None:
    rows = matrix.rows(lines(SCORE, Skipped(fault="rank-killed", skipped="no links")))
    names = ["rank-killed", "node-lost", "rank-stopped"]
    assert matrix.without_row(rows, names).startswith("2 of 3 scenarios have no row")
    assert matrix.without_row(rows, names).endswith(": `node-lost` `rank-stopped`.\n")
    assert matrix.without_row(rows, ["rank-killed"]) == ""
    page = report.written(f"{report.BEGIN}{report.END}", rows)
    assert " `rank-stopped` " in page
    assert " `rank-killed` `" not in page


def test_the_page_of_faults_agrees_with_the_scenarios() -> None:
    assert agreement.wrong(agreement.text_of(report.PAGE)) == []


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("| 8 | once | `exception-twice` | |", "row 8 names exception-twice, and there is no such"),
        ("| 8 | once | not yet | |", "row 8 leaves the scenario exception-once out"),
        (
            "| 8 | once | `exception-once`, no scenario | |",
            "row 8 says 'no scenario', and there is",
        ),
        ("| 42 | both holders lost | perhaps | |", "row 42 says neither which scenario"),
        ("", "fault 8 has no row"),
    ],
)
def test_a_page_that_disagrees_is_told_where(
    row: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    number = int(row.split()[1]) if row else 8
    rows = report.PAGE.read_text().splitlines()
    page = tmp_path / "faults.md"
    page.write_text("\n".join(row if line.startswith(f"| {number} | ") else line for line in rows))
    told = agreement.wrong(page.read_text())
    assert any(sentence.startswith(said) for sentence in told), told
    with pytest.raises(agreement.NoPage, match="No such file"):
        agreement.text_of(tmp_path / "none.md")


INTERRUPTED = """
import sys
from pathlib import Path
from msgspec.structs import replace
from holdfast.lab.chaos.main import run
from holdfast.lab.chaos.scenario import Shape
from holdfast.lab.chaos.scenarios import named
on_one = replace(named("rank-killed"), shape=Shape(nodes=1, standbys=0))
sys.exit(run([on_one], as_json=True, seed=1, steps=30, folder=Path(sys.argv[1]),
             runs=9, into=Path(sys.argv[2])))
"""


@pytest.mark.cluster
@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_real_campaign_that_is_interrupted_keeps_its_lines_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    file, folder = tmp_path / "runs.jsonl", tmp_path / "lab"
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(folder), str(file)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert b'"passed":true' in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == exitcodes.INTERRUPTED
    (line,), torn = campaign.read(file)
    assert torn == 0
    assert line.score
    assert line.score.named == "victim"
    assert line.score.role
    assert line.score.at_step
    labs = [(path, states.load(path)) for path in folder.iterdir()]
    left = [look(state.run_id, path) for path, state in labs if state is not None]
    assert len(left) >= 2, "the reference, and the run that was played"
    assert [each.count for each in left] == [0] * len(left), left
