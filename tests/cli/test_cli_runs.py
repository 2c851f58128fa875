"""`holdfast runs`: what lies under ./runs, and being rid of all but the newest."""

import fcntl
import json
import os
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.page.words import size
from holdfast.protocol import exitcodes
from holdfast.protocol.paths import RunPaths

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to type in, with three runs that have ended; train-3 is the newest."""
    monkeypatch.chdir(tmp_path)
    for number in (1, 2, 3):
        root = tmp_path / "runs" / f"train-{number}"
        root.mkdir(parents=True)
        RunPaths(root).journal.touch()
        RunPaths(root).lock.touch()
        (root / "jobs").write_bytes(b"x" * 10_000)
        os.utime(RunPaths(root).journal, (number * 1_000, number * 1_000))
    return tmp_path / "runs"


def _left(runs: Path) -> set[str]:
    return {each.name for each in runs.iterdir()}


def test_runs_are_listed_newest_first_with_their_size(runs: Path, capsys: Capture) -> None:
    assert main(["runs", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [Path(each["root"]).name for each in told] == ["train-3", "train-2", "train-1"]
    assert all(each["size_bytes"] >= 10_000 and not each["alive"] for each in told)
    assert main(["runs"]) == 0
    assert "train-1" in capsys.readouterr().out


def test_all_but_the_newest_are_removed(runs: Path, capsys: Capture) -> None:
    assert main(["runs", "prune", "--keep", "1", "--dry-run"]) == 0
    assert _left(runs) == {"train-1", "train-2", "train-3"}
    assert main(["runs", "prune", "--keep", "1"]) == 0
    assert _left(runs) == {"train-3"}
    said = capsys.readouterr()
    assert said.out.split() == ["train-2", "train-1"] * 2
    assert "2 runs would be removed" in said.err
    assert "2 runs removed" in said.err


def test_a_folder_that_is_named_holds_for_the_command_after_it(
    runs: Path, tmp_path: Path, capsys: Capture
) -> None:
    others = tmp_path / "others"
    others.mkdir()
    assert main(["runs", "--runs", str(others), "prune", "--keep", "0"]) == 0
    assert len(_left(runs)) == 3
    assert main(["runs", "--runs", str(others)]) == 0
    assert capsys.readouterr().out == f"no runs in {others}\n"


@pytest.mark.parametrize("lock", ["driver.lock", "keeper.lock"])
def test_a_run_in_use_stays(runs: Path, lock: str, capsys: Capture) -> None:
    with (runs / "train-1" / lock).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert main(["runs", "prune", "--keep", "0"]) == 0
    assert _left(runs) == {"train-1"}
    assert "2 runs removed" in capsys.readouterr().err


def test_what_is_no_run_stays(runs: Path, tmp_path: Path) -> None:
    (runs / "notes").mkdir()
    precious = tmp_path / "precious"
    precious.mkdir()
    RunPaths(precious).journal.touch()
    (runs / "link").symlink_to(precious)
    assert main(["runs", "prune", "--keep", "0"]) == 0
    assert _left(runs) == {"notes", "link"}
    assert RunPaths(precious).journal.exists()


def test_wrong_words_are_refused_in_a_sentence(runs: Path, capsys: Capture) -> None:
    assert main(["runs", "prune", "--keep", "-1"]) == exitcodes.USAGE
    assert "--keep: '-1' is less than 0." in capsys.readouterr().err
    assert len(_left(runs)) == 3


@pytest.mark.parametrize(
    ("octets", "said"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (20 << 20, "20 MiB"), (3 << 50, "3072 TiB")],
)
def test_sizes_are_said_as_people_say_them(octets: int, said: str) -> None:
    assert size(octets) == said
