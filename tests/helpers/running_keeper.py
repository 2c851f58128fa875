"""A keeper process with small processes instead of executors and daemons."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from waiting import DEADLINE_S, eventually

from holdfast.keeper import processes
from holdfast.keeper import state as states
from holdfast.keeper.state import KeeperState, NodeRecord
from holdfast.kit.files import listens_at

START = """
import sys
from {module} import main
rank = "sleep 1000 & echo $! > $HOLDFAST_SCRATCH/rank; wait"
commands = {{"executor": ["/bin/sh", "-c", rank], "daemon": ["/bin/sleep", "1000"]}}
if __name__ == "__main__":
    sys.exit(main(commands=commands))
"""
"""An "executor" with one "rank" whose pid it leaves, and a "daemon"."""


class RunningKeeper:
    """A keeper process on a folder, started and killed by a test."""

    module = "holdfast.keeper.process"
    """Whose `main` it runs: that of a keeper, or of the emulator."""

    def __init__(self, root: Path, *arguments: str) -> None:
        self.root = root
        self.arguments = arguments
        self.process: subprocess.Popen[bytes] | None = None
        (root / "tokens").mkdir(parents=True)
        (root / "tokens" / "node").write_text("secret")

    @property
    def socket(self) -> Path:
        return states.socket_path(self.root)

    @property
    def state(self) -> KeeperState:
        state = states.load(self.root)
        assert state is not None
        return state

    def command(self) -> list[str]:
        script = self.root / "start.py"
        script.write_text(START.format(module=self.module))
        return [sys.executable, str(script), "--state", str(self.root), *self.arguments]

    def start(self, *more: str, pass_fds: tuple[int, ...] = ()) -> None:
        log = (self.root / "keeper.log").open("ab")
        self.process = subprocess.Popen([*self.command(), *more], stderr=log, pass_fds=pass_fds)
        log.close()
        eventually(self.listens, "the keeper listens")

    def listens(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the keeper has ended: {self.said()}"
        return listens_at(self.socket)

    def said(self) -> str:
        """Its log so far."""
        return (self.root / "keeper.log").read_text()

    def node(self, name: str = "node-1") -> NodeRecord:
        return self.state.nodes[name]

    def host(self, name: str = "node-1") -> dict[str, Any]:
        """What the node's host says about itself, once both its processes run and the keeper has
        written down who it is.
        """

        def said() -> dict[str, Any] | None:
            node = self.node(name)
            path = Path(node.folder) / "host.json"
            if not node.host_pid or not path.exists():
                return None
            answer: dict[str, Any] = json.loads(path.read_bytes())
            return answer if answer["executor"] and answer["daemon"] else None

        return eventually(said, f"the host of {name} runs its two")

    def scratch(self, name: str = "node-1") -> Path:
        """The node's disk, as this process reaches it."""
        return Path(self.node(name).folder) / "scratch"

    def rank(self, name: str = "node-1", other_than: int = 0) -> int:
        def pid() -> int:
            path = self.scratch(name) / "rank"
            text = path.read_text().strip() if path.exists() else ""
            return int(text) if text and int(text) != other_than else 0

        return eventually(pid, f"{name} has a rank")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.socket.unlink(missing_ok=True)  # it could not: so that `start` sees the next one

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE_S)

    def left(self) -> list[str]:
        """Processes that carry the run's mark."""
        return [str(processes.environment_of(pid)) for pid in processes.marked(self.state.run_id)]

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()
        if states.load(self.root) is not None:
            processes.kill_marked(self.state.run_id)


def gone(pid: int) -> bool:
    return processes.start_ticks(pid) is None
