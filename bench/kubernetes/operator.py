"""A driver with the shipped role and a state of its own, and the executors of its pods, simulated.

Made by the turns for as long as a `with`. What it says is read off its journal and `/readyz`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import Self, TypeVar
from urllib.request import urlopen

from holdfast.bench.kubernetes import fleet
from holdfast.bench.kubernetes.seen import Late
from holdfast.bench.kubernetes.stage import Stage
from holdfast.bench.kubernetes.usage import Usage, usage_of
from holdfast.driver.core.state.model import State
from holdfast.driver.formats.encode import decode
from holdfast.driver.ports import Entry
from holdfast.kit.supervise import Child, Lifeline
from holdfast.lab.journals import opened
from holdfast.lab.supervised import Supervised

T = TypeVar("T")

LOOK_S = 0.005
UP_WITHIN_S = 120.0
ENDS_WITHIN_S = 20.0


class Operator:
    """`go` lets the simulated executors begin."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._paths = stage.fresh_state()
        self._way = stage.way

    def __enter__(self) -> Self:
        stage, root = self._stage, self._stage.root
        lifeline = Lifeline()
        words = ["--state", str(self._paths.root), "--cluster", "kubernetes"]
        words += ["--kubeconfig", str(stage.driver), "--namespace", fleet.NAMESPACE]
        words += ["--probes", "127.0.0.1:0"]
        start = self._way.start()
        self._journal = start.journal
        module, log = "holdfast.driver.main", root / "driver.log"
        words += start.words
        around = start.environment
        self._child = Child("driver", module, words, log=log, lifeline=lifeline, environment=around)
        self._supervised = Supervised([self._child], lifeline)
        simulate = [sys.executable, "-m", "holdfast.bench.kubernetes.simulate"]
        with (root / "simulate.log").open("ab") as out:
            self._executors = subprocess.Popen(
                [*simulate, str(stage.plane.admin), str(self._paths.root)],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        return self

    def __exit__(self, *exc_info: object) -> None:
        assert self._executors.stdin is not None
        self._executors.stdin.close()
        try:
            self._executors.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._executors.kill()
            self._executors.wait()
        self._supervised.end()

    def go(self) -> None:
        """Let the executors of all pods connect."""
        assert self._executors.stdin is not None
        self._executors.stdin.write(b"go\n")
        self._executors.stdin.flush()

    def usage(self) -> Usage:
        return usage_of(self._child.pid)

    def kill(self) -> None:
        """SIGKILL; whoever looks after it starts it again."""
        os.kill(self._child.pid, signal.SIGKILL)

    # ------------------------------------------------------------ what it says

    def state(self) -> State:
        """The newest that it has committed."""
        with closing(opened(self._journal, self._paths)) as journal:
            return decode(journal.load()[0] or b"")

    def entry(self, fact: Callable[[Entry], bool], after: int, within_s: float) -> Entry:
        """The first entry after `after` of which the fact is true. Raises `Late`."""
        with closing(opened(self._journal, self._paths)) as journal:
            return _awaited(lambda: _first(journal.entries(after=after), fact), within_s)

    def ready(self, within_s: float = UP_WITHIN_S) -> None:
        """Wait until it takes work, and sees the cluster. Raises `Late`."""
        _awaited(self._is_ready, within_s)

    def counts(self, collection: str, count: int, within_s: float = UP_WITHIN_S) -> None:
        """Wait until it has seen so many objects of a collection, as it tells Prometheus; what it
        sums up of them it sums up as it sees them. Raises `Late`.
        """
        _awaited(lambda: self._counted(collection) >= count, within_s, look_s=10 * LOOK_S)

    def has(self, fact: Callable[[State], bool], within_s: float = UP_WITHIN_S) -> None:
        """Wait until the fact is true of its state. Raises `Late`."""
        _awaited(lambda: fact(self.state()), within_s, look_s=50 * LOOK_S)

    def _counted(self, collection: str) -> float:
        told = f'holdfast_kubernetes_objects{{collection="{collection}"}} '
        try:
            where = json.loads(self._paths.address.read_bytes())
            with urlopen(f"{where['http']}/metrics", timeout=5.0) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return 0.0  # it is starting
        found = [line.removeprefix(told) for line in lines if line.startswith(told)]
        return float(found[0]) if found and where["pid"] == self._child.pid else 0.0

    def _is_ready(self) -> bool:
        if self._supervised.failure is not None:
            raise self._supervised.failure
        try:
            where = json.loads(self._paths.address.read_bytes())
            if where["pid"] != self._child.pid:
                return False
            with urlopen(f"{where['probes']}/readyz", timeout=5.0) as answer:
                return not json.load(answer)["why"]
        except OSError:
            return False  # it is starting


def _first(entries: list[Entry], fact: Callable[[Entry], bool]) -> Entry | None:
    return next((entry for entry in entries if fact(entry)), None)


def _awaited(look: Callable[[], T | None], within_s: float, look_s: float = LOOK_S) -> T:
    """What `look` gives once it is something. Raises `Late`."""
    deadline_s = time.monotonic() + within_s
    while not (found := look()):
        if time.monotonic() > deadline_s:
            raise Late(f"not within {within_s:g} s; logs are beside the driver's state")
        time.sleep(look_s)
    return found
