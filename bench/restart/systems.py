"""The systems under test, as a good user would start them on one machine.

Called by the turns. A system only starts things; what happens then is seen from outside.
"""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from holdfast.bench.restart.guarded import Guarded, without_ours
from holdfast.bench.restart.marks import RANKS
from holdfast.protocol import forkserving

SCRIPT = Path(__file__).with_name("script.py")


class Torchrun:
    """PyTorch's own launcher, restarts allowed without bound.

    `FRESH_STORE`: without it torch 2.15 gives restarted ranks the store of the attempt before, with
    no prefix of their own; gloo then finds dead addresses there, and no restart here succeeded
    ("connectFullMesh failed … Connection refused").
    """

    name = "torchrun"
    program: tuple[str, ...] = (sys.executable, "-m", "torch.distributed.run")
    FRESH_STORE: ClassVar[dict[str, str]] = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    _RESTARTS = ("--max-restarts", "1000")

    def start(self, folder: Path) -> Guarded:
        """All ranks on one node."""
        return self.script(folder, SCRIPT, str(folder))

    def script(self, folder: Path, *command: str | Path) -> Guarded:
        """The same with another script, and its words."""
        flags = ("--standalone", "--nproc-per-node", str(RANKS))
        return self._agent(folder, flags, "torchrun.log", *command)

    def agent(self, folder: Path, node: int, port: int) -> Guarded:
        """One of two nodes, half of the ranks on each; node 0 hosts the rendezvous. One more waits
        there until one of the two is gone.
        """
        flags = (
            *("--nnodes", "2", "--nproc-per-node", str(RANKS // 2), "--rdzv-backend", "c10d"),
            *("--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "bench"),
            *("--rdzv-conf", f"is_host={1 if node == 0 else 0}"),
        )
        return self._agent(folder, flags, f"node-{node}.log", SCRIPT, folder)

    def _agent(self, folder: Path, flags: Sequence[str], log: str, *command: str | Path) -> Guarded:
        kept = ("--log-dir", str(folder))  # else in /tmp, where nobody removes it
        words = [*self.program, *self._RESTARTS, *kept, *flags, *map(str, command)]
        return Guarded(words, log=folder / log, cwd=folder, more=self.FRESH_STORE)


class Nvrx(Torchrun):
    """The launcher of NVIDIA's resiliency extension, which began as torchrun and has its options.
    `python` is that of an environment which has it. Raises `LookupError`.
    """

    def __init__(self, python: str) -> None:
        self.name = f"nvrx {_version('nvidia-resiliency-ext', python)}"
        self.program = (python, "-m", "nvidia_resiliency_ext.fault_tolerance.launcher")


def _version(package: str, python: str) -> str:
    ask = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    try:
        words = [python, "-c", ask, package]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        raise LookupError(f"{python}: {error.strerror}. Name a Python interpreter.") from error
    if done.returncode:
        raise LookupError(f"{python}: it has no {package}. Install it there.")
    return done.stdout.strip()


class Holdfast:
    """`holdfast run`, without any option but the number of ranks."""

    name = "holdfast"
    _LOG = "holdfast.log"

    def start(self, folder: Path) -> Guarded:
        """All ranks on one node."""
        return self.script(folder, SCRIPT, str(folder))

    def script(self, folder: Path, *command: str | Path) -> Guarded:
        """The same with another script, and its words."""
        return self.run(folder, [*map(str, command)])

    def log(self, folder: Path) -> str:
        """What the user was told."""
        return (folder / self._LOG).read_text(errors="replace")

    def named(self, folder: Path) -> int | None:
        """The rank of which the user was told that it holds the job up."""
        said = self.log(folder)
        found = re.search(r"^holdfast +rank (\d+) .*holds the job up", said, re.MULTILINE)
        return int(found[1]) if found else None

    def run(self, folder: Path, words: Sequence[str], ranks: int = RANKS) -> Guarded:
        """`holdfast run -n RANKS WORDS`, its state below the folder."""
        options = ("run", "-n", str(ranks), "--runs", str(runs(folder)))
        program = [sys.executable, "-m", "holdfast.cli", *options, *words]
        return Guarded(program, log=folder / self._LOG, cwd=folder, more=_own_warm(folder))

    def environment(self, folder: Path) -> dict[str, str]:
        """That of other commands than `run`, beside such a run."""
        return without_ours(os.environ) | _own_warm(folder)


System = Torchrun | Holdfast


def _own_warm(folder: Path) -> dict[str, str]:
    """A `holdfast warm` of the user's is no part of a turn."""
    return {forkserving.FOLDER: str(folder / "warm")}


def runs(folder: Path) -> Path:
    """Where `holdfast run` makes the folder of its run."""
    return folder / "runs"


def free_port() -> int:
    """A port of 127.0.0.1 that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
