"""Runs beside the newest are asked about by their names, as `holdfast runs` lists them."""

import json

import pytest
from shells import Shell, heard
from waiting import DEADLINE_S, eventually

from holdfast.protocol import exitcodes

pytestmark = [pytest.mark.cluster, pytest.mark.warm]


def ran(shell: Shell, text: str) -> str:
    """The name of a run that printed it, and has ended."""
    ended = shell.holdfast("run", "--", "echo", text)
    assert ended.returncode == 0, ended.stderr
    return listed(shell)[0]


def listed(shell: Shell) -> list[str]:
    runs = json.loads(shell.asked("runs", "--json").stdout)
    return [run["root"].rpartition("/")[2] for run in runs]


def is_told_of(shell: Shell, name: str, text: str) -> None:
    assert shell.asked("status", name).stdout.startswith(f"{name}  Succeeded")
    assert shell.asked("why", name).stdout.startswith(f"{name} succeeded")
    assert f"{name} is done" in shell.asked("story", name).stdout
    assert shell.asked("logs", name).stdout == f"{text}\n"


def names_both(shell: Shell, *names: str) -> None:
    """Whoever mistypes a name is told of those that there are."""
    for command in ("status", "story", "why", "logs"):
        ended = shell.asked(command, "ech")
        assert ended.returncode == exitcodes.FAILED
        assert f"Did you mean {' or '.join(sorted(names))}?" in ended.stderr, ended.stderr


def test_every_run_that_is_listed_can_be_asked_about(shell: Shell) -> None:
    older, newest = ran(shell, "first"), ran(shell, "second")
    is_told_of(shell, older, "first")
    is_told_of(shell, newest, "second")
    assert shell.asked("logs").stdout == "second\n"
    names_both(shell, older, newest)
    stopped = shell.asked("stop", older)
    assert stopped.returncode == exitcodes.UNAVAILABLE
    assert f"the run {older} is over." in stopped.stderr
    assert f"What became of it: holdfast status {older}" in stopped.stderr


def test_also_while_another_one_runs(shell: Shell) -> None:
    older = ran(shell, "first")
    process = shell.start("run", "--", "sh", "-c", "echo up >&2; exec sleep 100")
    heard(process, "up")
    is_told_of(shell, older, "first")
    ended = shell.asked("why", older[:-1])
    assert f"Did you mean {older}?" in ended.stderr
    (alive,) = {*listed(shell)} - {older}
    assert shell.asked("status", alive).stdout.startswith(f"{alive}  Running")
    assert shell.asked("stop", alive).returncode == 0


def test_a_driver_that_never_had_a_job_is_one_that_never_began(shell: Shell) -> None:
    process = shell.start("driver", "--state", "runs/idle")
    eventually((shell.folder / "runs" / "idle" / "driver.json").exists)
    assert "starting" in shell.asked("runs").stdout
    process.terminate()
    process.wait(DEADLINE_S)
    assert "never began" in shell.asked("runs").stdout
    for words in ("status", "status idle", "why idle", "logs", "logs idle"):
        ended = shell.asked(*words.split())
        assert ended.returncode == exitcodes.FAILED
        assert "runs/idle has no job: its driver ended before one had begun.  See" in ended.stderr
    assert shell.asked("jobs").stdout == "no jobs\n"
