"""A node's signals as a process of their own, as their DaemonSet's pod would run them on a node.

Used by tests on a real API server. It dies with the tests.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from dying import die_with_parent
from waiting import DEADLINE_S, eventually

XID = "NVRM: Xid (PCI:0000:3b:00): {}, pid=1, name=python\n"


class SignalsProcess:
    """`python -m holdfast.daemon.signals` for one node, with a kernel log and an account of files.

    Runs within a `with`.
    """

    def __init__(self, folder: Path, node: str, *, url: str, ca: Path, token: str) -> None:
        self.log = folder / "signals.log"
        self._kernel_log, self._boot = folder / "kernel.log", folder / "boot_id"
        self._token = folder / "token"
        folder.mkdir()
        shutil.copy(ca, folder / "ca.crt")
        self._kernel_log.touch()
        self.boots("11111111-1111-4111-8111-111111111111")
        self.gets_token(token)
        self._words = ["--node", node, "--api-server", url, "--service-account", str(folder)]
        self._words += ["--kernel-log", str(self._kernel_log), "--boot-id", str(self._boot)]
        self._process: subprocess.Popen[bytes] | None = None

    def gets_token(self, token: str) -> None:
        self._token.write_text(token)

    def boots(self, boot: str) -> None:
        """For the next start."""
        self._boot.write_text(f"{boot}\n")

    def kernel_says(self, xid: int) -> None:
        with self._kernel_log.open("a") as log:
            log.write(XID.format(xid))

    def says(self, words: str) -> None:
        """Return once its log has these words."""
        eventually(lambda: words in self.log.read_text(), f"its log says {words}")

    def __enter__(self) -> Self:
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "holdfast.daemon.signals", *self._words],
                stderr=log,
                env={"PATH": os.environ["PATH"]},
                preexec_fn=die_with_parent,
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(timeout=DEADLINE_S) == 0, self.log.read_text()
