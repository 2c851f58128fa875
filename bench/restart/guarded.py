"""A command run under `guard`, so that nothing of it outlives this process.

Called by the systems.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

GUARD = Path(__file__).with_name("guard.py")
ENDS_WITHIN_S = 40.0


def without_ours(environment: Mapping[str, str]) -> dict[str, str]:
    """Nothing of an outer Holdfast."""
    return {k: v for k, v in environment.items() if not k.startswith("HOLDFAST_")}


class Guarded:
    """One running command; its output goes to `log`."""

    def __init__(
        self, command: Sequence[str], *, log: Path, cwd: Path, more: dict[str, str]
    ) -> None:
        """`more` is added to the environment; nothing of an outer Holdfast is passed on."""
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(GUARD), *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=cwd,
                env=without_ours(os.environ) | more,
                start_new_session=True,  # a Ctrl-C is the benchmark's alone
            )

    @property
    def ended(self) -> bool:
        """The command ended by itself."""
        return self._process.poll() is not None

    @property
    def failed(self) -> bool:
        """It ended, and not with 0."""
        return bool(self._process.poll())

    @property
    def child(self) -> int | None:
        """The pid of the command itself; None before it runs."""
        below = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return next(map(int, below.read_text().split()), None)

    def kill(self) -> None:
        """SIGKILL to the command and all that it started, at once: a node that vanishes."""
        self._process.send_signal(signal.SIGUSR1)
        self._process.wait(ENDS_WITHIN_S)

    def end(self) -> None:
        """End the command gently, then see to it that nothing is left."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGUSR1)
            self._process.wait(ENDS_WITHIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.end()
