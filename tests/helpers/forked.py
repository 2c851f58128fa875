"""Scripts in processes of their own that have imported torch before they begin.

For tests whose scripts are real processes and what starts them is not the point: to import torch
takes 1.7 s of CPU, and to end after it one more.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Forked:
    """A process that has imported `modules`, and forks. `prefix`: the command before its own;
    `folder`: where what scripts print is kept, of the last one that ran.
    """

    def __init__(self, folder: Path, *modules: str, prefix: tuple[str, ...] = ()) -> None:
        self._out, self._err = folder / "out", folder / "err"
        program = str(Path(__file__).with_name("forking.py"))
        self._process = subprocess.Popen(
            [*prefix, sys.executable, "-W", "ignore", program, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._answer() == "ready\n"

    def run(self, script: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """To its end."""
        streams = {"out": str(self._out), "err": str(self._err)}
        order = {"script": str(script), "arguments": arguments, **streams}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        code = int(self._answer())
        out, err = self._out.read_text(), self._err.read_text()
        return subprocess.CompletedProcess(script, code, out, err)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def end(self) -> None:
        """With it goes a script that still runs."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def forked(folder: Path, *modules: str, prefix: tuple[str, ...] = ()) -> Iterator[Forked]:
    """One for all tests of a module."""
    made = Forked(folder, *modules, prefix=prefix)
    try:
        yield made
    finally:
        made.end()
