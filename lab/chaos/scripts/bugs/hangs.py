"""A rank goes no further, each in its own way."""

import os
import subprocess
from pathlib import Path

from holdfast.workload.train import Trainer

_loaders: list["subprocess.Popen[bytes]"] = []
_unburied: list["subprocess.Popen[bytes]"] = []


def spin(_trainer: Trainer) -> None:
    while True:
        pass


def pipe(_trainer: Trainer) -> None:
    """Wait for a data loader that will never write."""
    theirs, _ours = os.pipe()
    os.read(theirs, 1)


def load(_trainer: Trainer) -> None:
    """Each step has its samples from a child process, which answers as long as it lives."""
    if not _loaders:
        _loaders.append(
            subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        )
    samples, asked = _loaders[0].stdout, _loaders[0].stdin
    assert samples is not None, "it is a pipe"
    assert asked is not None, "it is one, too"
    asked.write(b"next\n")
    samples.readline()


def bury_none(_trainer: Trainer) -> None:
    """Start child processes, and never take note of their ends."""
    _unburied.extend(subprocess.Popen(["true"]) for _ in range(20))


def stall(_trainer: Trainer) -> None:
    """Read a file of a disk that does not answer; a file says which."""
    where = Path(os.environ["CHAOS_BUGS"]) / "stalled"
    with open(where.read_text(), "rb", buffering=0) as file:
        file.read(1)


BUGS = {"spin": spin, "pipe": pipe, "load": load, "stall": stall, "zombies": bury_none}
