"""Ctrl-C at any moment of a command, from its first import on: no traceback, and nothing is left.

The moments are facts: with PYTHONPROFILEIMPORTTIME Python writes a line as each import has ended.
"""

import signal
import socket
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from shells import Shell, heard
from waiting import DEADLINE_S, eventually

from holdfast.cli.client import Problem
from holdfast.cli.run.follow import Run
from holdfast.cli.run.options import Options, new_run
from holdfast.protocol import exitcodes

IMPORTED = "import time:"
ENDED = {-signal.SIGINT, exitcodes.INTERRUPTED}
"""By the signal, or with the exit code that a shell has for it."""


@pytest.fixture
def slow_motion(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    return shell


def interrupted(process: "subprocess.Popen[str]", after: str) -> list[str]:
    """What it says, besides its imports, where Ctrl-C comes at the import after that one."""
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    assert any(line.endswith(f" {after}\n") for line in lines)
    said = [next(lines)]
    process.send_signal(signal.SIGINT)
    said += lines
    return [line for line in said if line.strip() and not line.startswith(IMPORTED)]


BEGINNING = "holdfast.kit.interrupt typer http.client msgspec holdfast.cli.show".split()


@pytest.mark.parametrize("after", BEGINNING)
def test_a_command_that_asks_ends_in_silence(slow_motion: Shell, after: str) -> None:
    tokens = slow_motion.folder / "state" / "tokens"
    tokens.mkdir(parents=True)
    (tokens / "user").write_text("token")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        process = slow_motion.start("jobs", "--driver", url, "--state", "state")
        assert interrupted(process, after) == []
        assert process.wait(DEADLINE_S) in ENDED


@pytest.mark.parametrize("after", [*BEGINNING, "holdfast.cli.sse", "holdfast.kit.supervise"])
def test_a_run_that_has_not_begun_ends_with_a_word_at_most(slow_motion: Shell, after: str) -> None:
    process = slow_motion.start("run", "--", "sleep", "100")
    said = interrupted(process, after)
    assert [line for line in said if not line.startswith("holdfast  ")] == []
    assert process.wait(DEADLINE_S) in ENDED
    eventually(lambda: not slow_motion.leftovers(), "nothing is left")


@pytest.mark.parametrize("after", "structlog uvicorn fastapi sqlalchemy".split())
def test_a_driver_that_still_imports_ends_in_silence(slow_motion: Shell, after: str) -> None:
    """Or it ends as ever where it was up already."""
    process = slow_motion.start("driver", "--state", "state")
    said = interrupted(process, after)
    assert [line for line in said if not line.startswith(("holdfast  ", "{"))] == []
    assert process.wait(DEADLINE_S) in {*ENDED, exitcodes.OK}


class Deaf:
    """A `Service` whose driver never answers; Ctrl-C comes while it is asked."""

    def __init__(self) -> None:
        self.start = self.end = self.look_after = lambda: None

    def ask(self, _question: Any) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("has_logs", "said"), [(False, "before its job had begun"), (True, "logs")]
)
def test_a_job_that_was_not_submitted_leaves_no_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], has_logs: bool, said: str
) -> None:
    asked = Options(command=("true",), ranks=1, runs=tmp_path)
    paths = new_run(asked)
    run = Run(asked, paths)
    run._service = Deaf()  # type: ignore[assignment]
    if has_logs:  # of a job that the driver took and died before it said so
        paths.job(paths.root.name).mkdir(parents=True)
    assert run.execute() == exitcodes.INTERRUPTED
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("holdfast  stopped")
    assert said in line
    assert paths.root.exists() is has_logs


@pytest.mark.parametrize(
    ("answers", "asked_times"),
    [
        pytest.param([Problem(503, {}), {}], 2, id="not now"),
        pytest.param([None, {}], 2, id="away"),
        pytest.param([Problem(409, {})], 1, id="it has just ended"),
    ],
)
def test_a_stop_is_asked_for_until_the_driver_has_taken_or_refused_it(
    tmp_path: Path, answers: list[Any], asked_times: int
) -> None:
    options = Options(command=("true",), ranks=1, runs=tmp_path)
    run = Run(options, new_run(options))
    run._service = Mock(**{"ask.side_effect": answers})
    run._signals.append(signal.SIGINT)
    for _ in range(3):
        run._stop_if_told()
    assert run._service.ask.call_count == asked_times


IGNORED = pytest.mark.parametrize(
    ("number", "through"),
    [
        (signal.SIGHUP, ("nohup",)),
        (signal.SIGINT, ("sh", "-c", 'trap "" INT; exec "$@"', "sh")),
    ],
    ids=["nohup", "a script's background"],
)


@IGNORED
def test_a_run_goes_on_at_a_signal_that_its_starter_ignores(
    shell: Shell, number: signal.Signals, through: tuple[str, ...]
) -> None:
    shell.through = through
    process = shell.start(
        "run", "--", "sh", "-c", "touch up; while [ ! -e go ]; do sleep .05; done"
    )
    eventually((shell.folder / "up").exists, "its rank is up")
    process.send_signal(number)
    (shell.folder / "go").touch()
    assert process.wait(DEADLINE_S) == exitcodes.OK


@IGNORED
def test_a_driver_ignores_what_its_starter_ignores(
    shell: Shell, number: signal.Signals, through: tuple[str, ...]
) -> None:
    shell.through = through
    process = shell.start("driver", "--state", "state", "--local-nodes", "1")
    heard(process, "driver at")
    told = Path(f"/proc/{process.pid}/status").read_text()
    (ignored,) = [line.split()[1] for line in told.splitlines() if line.startswith("SigIgn:")]
    assert int(ignored, 16) >> (number - 1) & 1


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_nobody_ignores_stops_the_run(shell: Shell, number: signal.Signals) -> None:
    shell.through = ("env", "--default-signal")  # these tests may run under nohup themselves
    process = shell.start("run", "--", "sh", "-c", "touch up; exec sleep 100")
    eventually((shell.folder / "up").exists, "its rank is up")
    process.send_signal(number)
    assert process.wait(DEADLINE_S) == exitcodes.of_signal(number)
