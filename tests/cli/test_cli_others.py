"""The state of another user is told of truly; what may not be read is a sentence."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.cli import find
from holdfast.cli.main import main
from holdfast.keeper.state import socket_path
from holdfast.protocol import exitcodes
from holdfast.protocol.paths import RunPaths

NOBODY = 65_534


@contextmanager
def not_mine(folder: Path) -> Iterator[None]:
    """`folder` as it is for a user who may not look into it; root may, and becomes another."""
    folder.chmod(0o000)
    was_root = os.geteuid() == 0
    if was_root:
        os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        if was_root:
            os.setresuid(0, 0, 0)
        folder.chmod(0o700)


def test_a_driver_of_another_user_is_one_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError(pid, number)

    RunPaths(tmp_path).address.write_text(json.dumps({"pid": 1, "http": "http://127.0.0.1:1"}))
    monkeypatch.setattr(os, "kill", refuse)
    assert find.address(tmp_path) == "http://127.0.0.1:1"


@pytest.mark.parametrize("words", ["status", "jobs", "stop a"])
def test_a_state_that_this_user_may_not_read_is_told_in_a_sentence(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    with not_mine(state):
        code = main([*words.split(), "--state", str(state)])
    assert code == exitcodes.CONFIGURATION
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"holdfast: cannot read {state}/driver.json: Permission denied.")


def test_runs_that_this_user_may_not_read_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_STATE", raising=False)
    run = tmp_path / "runs" / "train-1"
    run.mkdir(parents=True)
    RunPaths(run).journal.touch()
    with not_mine(run):
        code = main(["status"])
    assert code == exitcodes.UNAVAILABLE
    assert "there is no run under ./runs" in capsys.readouterr().err


def test_a_driver_that_is_away_while_its_nodes_live_is_waited_for_and_then_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(find, "BACK_S", 0.2)
    with socket.socket(socket.AF_UNIX) as keeper:
        keeper.bind(str(socket_path(tmp_path)))
        keeper.listen(64)
        for words in (["status"], ["why", "node-1"], ["stop", "a"]):
            assert main([*words, "--state", str(tmp_path)]) == exitcodes.UNAVAILABLE
            said = capsys.readouterr().err
            assert "is away and is being started again; its nodes and their ranks run on" in said
            assert "Ask again in a moment." in said
    assert main(["status", "--state", str(tmp_path)]) == exitcodes.UNAVAILABLE
    assert "has no journal" in capsys.readouterr().err
