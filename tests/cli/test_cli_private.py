"""State is for the user who made it alone: it has the environment of jobs, and their output."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from shells import Shell
from waiting import eventually

from holdfast.cli.run.options import Options, new_run
from holdfast.protocol.paths import RunPaths

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_folder_of_a_run_is_private_from_the_beginning(tmp_path: Path) -> None:
    made = new_run(Options(command=("true",), ranks=1, runs=tmp_path / "runs"))
    assert mode(made.root) == 0o700
    assert mode(tmp_path / "runs") == 0o755, "of what is above it, nothing is known"


def test_in_a_state_folder_that_others_may_read_journal_and_logs_are_private(shell: Shell) -> None:
    paths = RunPaths(shell.folder / "state")
    paths.root.mkdir(mode=0o755)
    shell.start("driver", "--state", "state")
    eventually(paths.address.exists)
    journals = list(paths.root.glob("journal.sqlite*"))
    assert len(journals) == 3, "with what SQLite keeps beside it"
    assert {mode(each) for each in journals} == {0o600}
    assert mode(paths.jobs) == 0o700
    assert mode(paths.root) == 0o755, "it was somebody's before it was ours"
