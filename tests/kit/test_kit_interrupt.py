"""Ctrl-C ends a command without a traceback, whatever it is about just then."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

LOADING = """
import sys
print("loading", flush=True)
sys.stdin.readline()
def main(arguments):
    print(*arguments)
    return 7
"""
INSIDE = """
import signal
class Last:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
def main(arguments):
    last = Last()
    del last
    print("goes on", flush=True)
"""
RAISING = """
import signal
def main(arguments):
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        print("put away", flush=True)
        raise
"""
LEAVING = """
import atexit, signal
atexit.register(signal.raise_signal, signal.SIGINT)
def main(arguments):
    return 0
"""
OTHER = """
class Wrong:
    def __del__(self):
        raise ValueError("seen")
def main(arguments):
    Wrong()
    return 0
"""


def begun(folder: Path, text: str) -> "subprocess.Popen[str]":
    """The command whose module has this text."""
    (folder / "program.py").write_text(text)
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast.kit.interrupt", "program", "a", "b"],
        env=os.environ | {"PYTHONPATH": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_while_it_imports_the_signal_itself_ends_it(tmp_path: Path) -> None:
    with begun(tmp_path, LOADING) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate() == ("", "")
    assert process.returncode == -signal.SIGINT


@pytest.mark.parametrize(
    ("text", "said"),
    [(INSIDE, ""), (RAISING, "put away\n"), (LEAVING, "")],
    ids=["in a destructor", "in main", "at exit"],
)
def test_it_is_neither_shown_nor_forgotten(tmp_path: Path, text: str, said: str) -> None:
    with begun(tmp_path, text) as process:
        assert process.communicate() == (said, "")
    assert process.returncode == -signal.SIGINT


def test_left_alone_it_has_its_arguments_and_its_exit_code(tmp_path: Path) -> None:
    with begun(tmp_path, LOADING) as process:
        assert process.communicate("\n") == ("loading\na b\n", "")
    assert process.returncode == 7


def test_where_ctrl_c_is_ignored_it_stays_so(tmp_path: Path) -> None:
    """As in the background of a shell's script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = begun(tmp_path, LOADING)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate("\n") == ("a b\n", "")
    assert process.returncode == 7


def test_another_exception_in_a_destructor_is_shown_as_ever(tmp_path: Path) -> None:
    with begun(tmp_path, OTHER) as process:
        assert "ValueError: seen" in process.communicate()[1]
    assert process.returncode == 0
