"""One run from its first process to its last: start, submit, show, wait, take down.

Called by the command `run`. Must not decide anything about the job: the driver does.
"""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from holdfast.cli import find
from holdfast.cli.client import Client, path
from holdfast.cli.errors import Stopped, not_reachable
from holdfast.cli.run.children import Child, Lifeline, end_all
from holdfast.cli.run.events import Events
from holdfast.cli.run.narrate import FINISHED, Narrator
from holdfast.cli.run.options import Options, job_of
from holdfast.cli.run.tails import Output
from holdfast.cli.words import plural
from holdfast.protocol import exitcodes
from holdfast.protocol.paths import RunPaths

LOOK_S = 0.05
"""How often output is looked for: a reader does not see a shorter delay."""
ASK_S = 1.0
"""How often the job is asked about where no event came: an event may be lost with the driver."""
UP_S = 60.0
"""How long the driver may take to come up; it takes about one second."""
PENDING_S = 5.0
"""After so long without nodes, say what is waited for."""


class Interrupted(Exception):
    """Ctrl-C for the second time: take everything down now."""


class Run:
    """One `holdfast run`. `execute` is all of it."""

    def __init__(self, options: Options, paths: RunPaths) -> None:
        self._options = options
        self._paths = paths
        self._job = paths.root.name
        self._narrator = Narrator(_line_to_stderr, options.world_size)
        self._signals: list[int] = []
        self._asked_to_stop = False
        self._pending_told = False
        self._pause = threading.Event()  # never set: a wait that a signal's handler may enter

    def execute(self) -> int:
        """Run the job to its end; the exit code is the script's own."""
        lifeline = Lifeline()
        children: list[Child] = []
        with self._signals_taken():
            try:
                children.append(self._driver(lifeline))
                children.append(self._keeper(lifeline))
                client = self._connect(children)
                client.post(path("jobs"), job_of(self._options, self._job))
                self._greet()
                return self._follow(children)
            except Interrupted:
                return exitcodes.of_signal(self._signals[0])
            finally:
                end_all(children, lifeline)

    def _driver(self, lifeline: Lifeline) -> Child:
        root = self._paths.root
        arguments = ["--state", str(root), "--keeper", str(root / "keeper.sock")]
        return Child("driver", "holdfast.driver.main", arguments, root / "driver.log", lifeline)

    def _keeper(self, lifeline: Lifeline) -> Child:
        """Beside the driver, not after it: the driver's socket has its name before it is there."""
        root, options = self._paths.root, self._options
        arguments = [
            *("--state", str(root)),
            *("--nodes", str(options.nodes), "--standbys", str(options.standbys)),
            *("--driver", f"unix:{self._paths.socket}"),
            *("--token-file", str(self._paths.node_token)),
        ]
        return Child("keeper", "holdfast.keeper.main", arguments, root / "keeper.log", lifeline)

    def _connect(self, children: list[Child]) -> Client:
        deadline = time.monotonic() + UP_S
        while True:
            if (client := self._client()) is not None:
                return client
            now = time.monotonic()
            if now > deadline:
                raise not_reachable("the driver did not come up.", f"Its log: {children[0].log}")
            if self._signals:
                raise Interrupted
            self._look_after(children, now)
            self._pause.wait(LOOK_S / 5)

    def _client(self) -> Client | None:
        url = find.address(self._paths.root)
        if url is None or not self._paths.user_token.exists():
            return None
        return Client(url, self._paths.user_token.read_text().strip())

    def _greet(self) -> None:
        if not self._options.quiet:
            ranks = plural(self._options.world_size, "rank")
            here = "here" if self._options.nodes == 1 else f"on {self._options.nodes} nodes"
            self._narrator.say(f"{ranks} {here}, logs in {_short(self._paths)}")

    def _follow(self, children: list[Child]) -> int:
        events = Events(self._client, self._job)
        output = Output(
            self._paths,
            self._job,
            self._options.world_size,
            stdout=_writer(sys.stdout.buffer),
            stderr=_writer(sys.stderr.buffer),
        )
        try:
            job = self._until_finished(children, events, output)
        finally:
            events.close()
            output.finish(time.monotonic())
        incidents = self._incidents()
        self._narrator.incidents(incidents)
        if not self._options.quiet or job["phase"] != "Succeeded":
            self._narrator.end(job, incidents)
        return self._exit_code(job)

    def _until_finished(
        self, children: list[Child], events: Events, output: Output
    ) -> dict[str, Any]:
        asked_s = 0.0
        while True:
            came = events.take(LOOK_S)
            now = time.monotonic()
            self._look_after(children, now)
            output.show(now)
            to_stop = bool(self._signals) and not self._asked_to_stop
            if came or to_stop or now - asked_s > ASK_S:
                asked_s = now
                job = self._ask(incidents=any(entry["incident"] is not None for entry in came))
                if job is not None and job["phase"] in FINISHED:
                    return job

    def _ask(self, *, incidents: bool) -> dict[str, Any] | None:
        """The job as it is; None while the driver is away (it is being restarted)."""
        client = self._client()
        if client is None:
            return None
        try:
            if self._signals and not self._asked_to_stop:
                client.post(path("jobs", self._job, "stop"))
                self._asked_to_stop = True
            if incidents:
                self._narrator.incidents(self._incidents())
            job: dict[str, Any] = client.get(path("jobs", self._job))
        except Stopped as gone:
            if gone.code != exitcodes.UNAVAILABLE:
                raise
            return None
        self._say_pending(job)
        return job

    def _say_pending(self, job: dict[str, Any]) -> None:
        if job["waiting"] and job["since_s"] > PENDING_S and not self._pending_told:
            self._pending_told = True
            self._narrator.say(f"waiting: {job['waiting']}")

    def _incidents(self) -> list[dict[str, Any]]:
        client = self._client()
        if client is None:
            return []
        found: list[dict[str, Any]] = client.get(path("incidents"), job=self._job)["items"]
        return found

    def _look_after(self, children: list[Child], now: float) -> None:
        if len(self._signals) > 1:
            raise Interrupted
        for child in children:
            child.look_after(now)

    def _exit_code(self, job: dict[str, Any]) -> int:
        if job["phase"] == "Succeeded":
            return exitcodes.OK
        if self._signals:
            return exitcodes.of_signal(self._signals[0])
        ended = job["exit"] or {}
        if ended.get("signal"):
            return exitcodes.of_signal(ended["signal"])
        return ended.get("code") or exitcodes.FAILED

    @contextmanager
    def _signals_taken(self) -> Iterator[None]:
        """Ctrl-C, SIGTERM and a closed terminal stop the job; the second one ends all at once."""
        kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {kind: signal.signal(kind, self._taken) for kind in kinds}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)

    def _taken(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)
        if len(self._signals) == 1:
            grace = f"{self._options.grace_s:g} s"
            self._narrator.say(f"stopping: the ranks have {grace}; once more kills them now")


def _line_to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _writer(stream: Any) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        stream.write(data)
        stream.flush()

    return write


def _short(paths: RunPaths) -> str:
    here = find.RUNS.absolute()
    return (
        str(paths.root.relative_to(here.parent)) if here in paths.root.parents else str(paths.root)
    )
