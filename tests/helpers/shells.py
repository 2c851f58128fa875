"""The real `holdfast` in processes of its own, and a look at what it leaves behind.

Used by tests that type commands as people do.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path

import psutil
import pytest
import warm_runs
from waiting import DEADLINE_S, eventually

from holdfast.cli.main import main

NOT_INHERITED = ("HOLDFAST_STATE", "HOLDFAST_TOKEN", "FORCE_COLOR")
HOLDFAST = [sys.executable, "-m", "holdfast.cli"]


class Shell:
    """A folder to type `holdfast` in; `warm`: its runs come from the session's fork server."""

    def __init__(self, folder: Path, *, warm: bool = False) -> None:
        self.folder = folder
        self.warm = warm
        self.told: dict[str, str] = {}
        """More of the environment, beside what this process has."""
        self.through: tuple[str, ...] = ()
        """What starts it in our place: `nohup`, say."""
        self.started: list[subprocess.Popen[str]] = []

    def script(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def holdfast(
        self, *words: str, timeout_s: float = DEADLINE_S
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        process = self.start(*words)
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=DEADLINE_S)
            pytest.fail(f"holdfast {words} did not end:\n{out}\n{err}")
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def asked(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The same of a command that only asks, in this process: in one of its own it imports for
        half a second and answers in a moment.
        """
        out, err = TextIOWrapper(BytesIO(), "utf-8"), TextIOWrapper(BytesIO(), "utf-8")
        with pytest.MonkeyPatch.context() as typed, redirect_stdout(out), redirect_stderr(err):
            typed.chdir(self.folder)
            for name in NOT_INHERITED:
                typed.delenv(name, raising=False)
            for name, value in ({"COLUMNS": "200"} | self.told).items():
                typed.setenv(name, value)
            code = main([*words])
        return subprocess.CompletedProcess(words, code, _written(out), _written(err))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start it; it is a session of its own, so that a signal to it reaches it alone."""
        environment = os.environ | {"HOLDFAST_TEST_FOLDER": str(self.folder), "COLUMNS": "200"}
        for name in NOT_INHERITED:
            environment.pop(name, None)
        if self.warm:
            environment |= warm_runs.environment()
        environment |= self.told
        process = subprocess.Popen(
            [*self.through, *HOLDFAST, *words],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    @property
    def run(self) -> Path:
        """The folder of the one run that was made here."""
        (run,) = (self.folder / "runs").iterdir()
        return run

    def leftovers(self) -> list[str]:
        """Live processes that were started from here, told by the environment they inherited, or
        where they were forked, by their working directory; the test itself may be there, too.
        """
        mark, here = ("HOLDFAST_TEST_FOLDER", str(self.folder)), str(self.folder)
        found = []
        for process in psutil.process_iter():
            try:
                forked = process.cwd() == here and process.pid != os.getpid()
                ours = mark in process.environ().items() or forked
                if ours and process.status() != "zombie":
                    found.append(" ".join(process.cmdline()))
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found


def _written(stream: TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def heard(process: "subprocess.Popen[str]", what: str) -> str:
    """What it says on stderr, up to the line in which `what` is. The rest is to be read there, too:
    `communicate` would leave out what has come with that line.
    """
    assert process.stderr is not None
    said = ""
    for line in iter(process.stderr.readline, ""):
        said += line
        if what in line:
            return said
    pytest.fail(f"it never said {what!r}:\n{said}")


@contextmanager
def shell_in(folder: Path, *, warm: bool = False) -> Iterator[Shell]:
    """Whatever was typed there has ended, and left nothing, at the end."""
    made = Shell(folder, warm=warm)
    try:
        yield made
    finally:
        for process in made.started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(DEADLINE_S)
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
    eventually(lambda: not made.leftovers(), "nothing is left")
