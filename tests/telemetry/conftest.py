"""Ranks that are forked from one process with torch loaded."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import ports
import pytest
from waiting import eventually

from holdfast.protocol.messages import RankProgress
from holdfast.telemetry.ring import RingReader

LAUNCHER = Path(__file__).with_name("launch_ranks.py")
PATHS = [str(Path(ports.__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]


class Launcher:
    """A process that has loaded torch once and forks the ranks of one script after another."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(LAUNCHER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(PATHS)},
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def start(self, script: Path, ranks: int, folder: Path, told: dict[str, str]) -> "Ranks":
        order = {"script": str(script), "ranks": ranks, "folder": str(folder), "told": told}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return Ranks(json.loads(self._process.stdout.readline()), folder)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class Ranks:
    """The ranks of one script."""

    def __init__(self, pids: list[int], folder: Path) -> None:
        self.pids = pids
        self.folder = folder
        self._readers: dict[int, RingReader] = {}

    def read(self, rank: int) -> RankProgress:
        if rank not in self._readers:
            self._readers[rank] = RingReader(self.ring(rank))
        return self._readers[rank].read()

    @property
    def rings(self) -> Path:
        return self.folder / "rings"

    def ring(self, rank: int) -> Path:
        return self.rings / f"job.e1.r{rank}.ring"

    def there(self) -> bool:
        return all(self.ring(rank).exists() for rank in range(len(self.pids)))

    def exit_codes(self) -> list[int] | None:
        """Once all have ended; the launcher reaps them."""
        files = [self.folder / f"{rank}.exit" for rank in range(len(self.pids))]
        return [int(file.read_text()) for file in files] if all(map(Path.exists, files)) else None

    def output(self, rank: int) -> str:
        """What it has printed; nothing before it has begun."""
        path = self.folder / f"{rank}.out"
        return path.read_text() if path.exists() else ""

    def kill(self) -> None:
        for rank, pid in enumerate(self.pids):
            if not (self.folder / f"{rank}.exit").exists():
                with suppress(ProcessLookupError):  # reaped, and not yet noted
                    os.kill(pid, signal.SIGKILL)
        eventually(lambda: self.exit_codes() is not None, "ranks are reaped")


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    launcher = Launcher()
    yield launcher
    launcher.end()


@pytest.fixture
def ranks(launcher: Launcher, tmp_path: Path) -> Iterator[Callable[..., Ranks]]:
    """Start a script's text as so many ranks, with these variables; whatever is left is killed at
    the end."""
    started: list[Ranks] = []

    def start(text: str, count: int, **told: str) -> Ranks:
        folder = tmp_path / f"ranks{len(started)}"
        folder.mkdir()
        script = folder / "script.py"
        script.write_text(text)
        started.append(launcher.start(script, count, folder, told))
        return started[-1]

    yield start
    for each in started:
        each.kill()
