"""What dead runs left is swept by whoever comes first, and killed however late the killer is."""

import os
import subprocess
from pathlib import Path

import pytest
from dying import die_with_parent
from waiting import DEADLINE_S, eventually

from holdfast.keeper import factory, processes


def test_a_folder_that_another_keeper_removes_meanwhile_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factory, "SHARED_MEMORY", tmp_path)
    folders = [tmp_path / f"holdfast-{number}" for number in range(3)]
    for folder in folders:
        folder.mkdir()

    def none_lives() -> set[str]:
        folders[1].rmdir()  # they are listed by now
        return set()

    monkeypatch.setattr(factory, "live_runs", none_lives)
    assert sorted(factory.sweep_memory()) == folders
    assert list(tmp_path.iterdir()) == []


def test_what_carries_a_mark_is_killed_once_also_where_time_is_up_before() -> None:
    run = os.urandom(6).hex()
    marked = os.environ | {processes.RUN_MARK: run}
    with subprocess.Popen(["sleep", "1000"], env=marked, preexec_fn=die_with_parent) as process:
        try:
            eventually(lambda: [*processes.marked(run)] == [process.pid], "its exec is over")
            assert processes.kill_marked(run, within_s=0.0) == 1
            assert process.wait(DEADLINE_S) < 0
        finally:
            process.kill()
