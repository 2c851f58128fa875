"""What dead runs left is swept by whoever comes first, and killed however late the killer is."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from dying import die_with_parent
from waiting import DEADLINE_S, eventually

from holdfast.keeper import memory, processes


def test_a_folder_that_another_keeper_removes_meanwhile_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "SHARED_MEMORY", tmp_path)
    folders = [tmp_path / f"holdfast-{number}" for number in range(3)]
    for folder in folders:
        folder.mkdir()
        (folder / memory.MARK).touch()

    def none_lives() -> set[str]:
        shutil.rmtree(folders[1])  # they are listed by now
        return set()

    monkeypatch.setattr(memory, "live_runs", none_lives)
    assert sorted(memory.sweep_memory()) == [folders[0], folders[2]]
    assert list(tmp_path.iterdir()) == []


def test_what_is_only_called_as_ours_is_nobodys_to_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "SHARED_MEMORY", tmp_path)
    data = tmp_path / "holdfast-data" / "tokens.bin"
    data.parent.mkdir()
    data.touch()
    (tmp_path / "holdfast-notes").touch()
    assert memory.sweep_memory() == []
    assert data.exists()


def test_a_run_whose_processes_cannot_be_seen_from_here_is_kept_while_its_keeper_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a container with `--ipc=host`."""
    monkeypatch.setattr(memory, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(memory, "live_runs", set)
    run, held = os.urandom(6).hex(), memory.Memory()
    held.hold(run)
    assert memory.sweep_memory() == []
    leave = os.fork()
    if not leave:
        memory.Memory().hold(other := os.urandom(6).hex())
        os._exit(0 if memory.memory_root(other).is_dir() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(leave, 0)[1]) == 0
    assert len(memory.sweep_memory()) == 1, "the one whose keeper has ended"
    assert memory.memory_root(run).is_dir()
    held.remove(run)
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


def test_a_run_that_has_a_process_keeps_its_memory_though_its_keeper_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "SHARED_MEMORY", tmp_path)
    for run in ("ours", "theirs"):
        (tmp_path / f"holdfast-{run}").mkdir()
        (tmp_path / f"holdfast-{run}" / memory.MARK).touch()
    monkeypatch.setenv(processes.RUN_MARK, "ours")
    monkeypatch.setattr(processes, "marked", lambda: iter([os.getpid()]))
    monkeypatch.setattr(processes, "environment_of", lambda _: {processes.RUN_MARK: "theirs"})
    assert memory.live_runs() == {"ours", "theirs"}
    assert memory.sweep_memory() == []


def test_a_mark_that_is_a_link_is_none_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "SHARED_MEMORY", tmp_path)
    (tmp_path / "holdfast-x").mkdir()
    (tmp_path / "elsewhere").touch()
    (tmp_path / "holdfast-x" / memory.MARK).symlink_to(tmp_path / "elsewhere")
    assert memory.sweep_memory() == []
