"""One run from its first process to its last: start, submit, show, wait, take down.

Called by the command `run`. Must not decide anything about the job: the driver does.
"""

import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import Any

from holdfast.cli import find
from holdfast.cli.client import Client, Problem, path
from holdfast.cli.errors import not_reachable
from holdfast.cli.run import stdin
from holdfast.cli.run.events import Events
from holdfast.cli.run.farewell import until_at_rest
from holdfast.cli.run.hindered import Hindered
from holdfast.cli.run.narrate import Narrator
from holdfast.cli.run.options import Options, job_of
from holdfast.cli.run.screen import Screen
from holdfast.cli.run.service import Service
from holdfast.cli.run.tails import Output
from holdfast.driver.core.state.model import FINISHED
from holdfast.driver.ports import NO_NEW_WORK
from holdfast.kit.signals import taken
from holdfast.protocol import exitcodes
from holdfast.protocol.counts import plural
from holdfast.protocol.paths import RunPaths

LOOK_S = 0.05
"""How often output is looked for: a reader does not see a shorter delay."""
ASK_S = 1.0
"""How often the job is asked about where no event came: an event may be lost with the driver."""
UP_S = 60.0
"""How long the driver may take to come up; it takes about one second."""
UP_LOOK_S = 0.01
PENDING_S = 5.0
"""After so long without nodes, say what is waited for."""


class Interrupted(Exception):
    """Take everything down now: Ctrl-C for the second time, or a stop that nobody takes."""


class Run:
    """One `holdfast run`. `execute` is all of it."""

    def __init__(self, options: Options, paths: RunPaths) -> None:
        self._options = options
        self._paths = paths
        self._job = paths.root.name
        self._service = Service(options, paths)
        self._screen = Screen(self._unwritten)
        self._narrator = Narrator(self._screen.say, options.world_size)
        self._signals: list[int] = []
        self._submitted = False
        self._stopping = False
        self._waiting = ""  # what was said to be waited for
        self._over: int | None = None  # signals that had come when the job was over
        self._pause = threading.Event()  # never set: a wait that a signal's handler may enter

    def execute(self) -> int:
        """Run the job to its end; the exit code is the script's own."""
        with taken(self._taken):
            try:
                with ExitStack() as up:
                    up.callback(self._service.end)
                    self._service.start()
                    self._submit()
                    self._greet()
                    code = self._follow()
            except Problem:
                self._left()  # refused: there is nothing that it could tell of later
                raise
            except Interrupted:
                self._narrator.say(self._left())
                code = exitcodes.of_signal(self._signals[0] if self._signals else signal.SIGTERM)
        self._screen.check()
        return code

    def _left(self) -> str:
        """Last words about a run that did not come to its end. What never began leaves nothing."""
        if self._submitted or self._paths.job(self._job).exists():
            return f"stopped, nothing of it runs; logs in {_short(self._paths)}"
        shutil.rmtree(self._paths.root, ignore_errors=True)
        return "stopped before its job had begun; nothing of it is left"

    def _submit(self) -> None:
        """With a key: the driver may die between taking the job and saying so."""
        job, key = job_of(self._options, self._job), {"Idempotency-Key": self._job}
        deadline = time.monotonic() + UP_S
        while not self._asked(lambda driver: driver.post(path("jobs"), job, headers=key)):
            if self._signals:
                raise Interrupted
            if time.monotonic() > deadline:
                fix = f"Its log: {self._paths.driver_log}"
                raise not_reachable("the driver did not come up.", fix)
            self._service.look_after()
            self._pause.wait(UP_LOOK_S)
        self._submitted = True

    def _asked(self, submit: Callable[[Client], Any]) -> Any:
        """As `Service.ask`. Raises `Stopped` in words of a run, with which its driver ends."""
        try:
            return self._service.ask(submit)
        except Problem as problem:
            problem.sentence = problem.sentence.replace(NO_NEW_WORK, "this run was not begun")
            raise

    def _greet(self) -> None:
        if not self._options.quiet:
            ranks = plural(self._options.world_size, "rank")
            here = (
                "here" if self._options.nodes == 1 else f"on {plural(self._options.nodes, 'node')}"
            )
            where = f"logs in {_short(self._paths)}{self._page()}"
            self._narrator.say(f"{ranks} {here}, {where}")
            if stdin.is_fed():
                self._narrator.say(stdin.SAID)

    def _page(self) -> str:
        """Where it can be seen, for who opens that at once; "" while the driver is away."""
        address = self._service.ask(lambda driver: driver.url + driver.post(path("codes"))["path"])
        return f", page {address}" if address else ""

    def _follow(self) -> int:
        """Show what comes until the job has ended, then its last words and ours."""
        events = Events(self._service.client, self._job)
        output = Output(
            self._paths,
            self._job,
            self._options.world_size,
            stdout=self._screen.stdout,
            stderr=self._screen.stderr,
        )
        try:
            job = self._until_finished(events, output)
        finally:
            events.close()
            output.end(time.monotonic())
        quiet = self._options.quiet
        until_at_rest(self._service, self._narrator.say, self._wait, quiet=quiet)
        if job["phase"] == "Failed":
            self._service.end_nodes()  # whatever ranks printed last has been searched then
        incidents = self._incidents()
        self._narrator.incidents(incidents, job)
        if not self._options.quiet or job["phase"] != "Succeeded":
            self._narrator.spent(self._goodput())
            self._narrator.end(job, incidents, shown=output.ended_in)
        return self._exit_code(job)

    def _until_finished(self, events: Events, output: Output) -> dict[str, Any]:
        asked_s = 0.0
        hindered = Hindered(
            self._service,
            self._narrator.say,
            grace_s=self._options.grace_s,
            now=time.monotonic(),
        )
        while True:
            came = events.take(LOOK_S)
            now = time.monotonic()
            self._stop_if_told()  # first: what was cut short is to be told from what was lost
            if len(self._signals) + self._screen.has_failed > 1:
                raise Interrupted
            self._service.look_after()
            self._narrator.driver(self._service.driver_restarts)
            output.show(now)
            if not came and now - asked_s < ASK_S:
                continue
            asked_s = now
            if hindered.look(time.monotonic(), stopped=self._stop_wanted):
                raise Interrupted
            hit = any(entry["incident"] is not None for entry in came)
            incidents = self._incidents() if hit else []  # first: the job has counted all of them
            job = self._service.ask(lambda driver: driver.get(path("jobs", self._job)))
            self._narrator.incidents(incidents, job)
            if job is not None and job["phase"] in FINISHED:
                self._over = len(self._signals)
                return dict(job)
            self._say_pending(job)

    @property
    def _stop_wanted(self) -> bool:
        return bool(self._signals) or self._screen.has_failed

    def _stop_if_told(self) -> None:
        if self._stopping or not self._stop_wanted:
            return
        where, interrupt = path("jobs", self._job, "stop"), signal.SIGINT in self._signals[:1]
        try:
            asked = self._service.ask(lambda driver: driver.post(where, interrupt=interrupt))
        except Problem as problem:
            later = problem.code == exitcodes.TRY_AGAIN
            self._stopping = not later  # refused: it has just ended by itself
        else:
            self._stopping = asked is not None

    def _say_pending(self, job: dict[str, Any] | None) -> None:
        if job and job["waiting"] != self._waiting and job["since_s"] > PENDING_S:
            self._waiting = job["waiting"]
            if self._waiting:
                self._narrator.say(f"waiting: {self._waiting}")

    def _wait(self) -> bool:
        """For a moment, once the job is over; False where a signal has come since."""
        self._pause.wait(LOOK_S)
        return len(self._signals) == self._over

    def _incidents(self) -> list[dict[str, Any]]:
        found = self._service.ask(lambda driver: driver.get(path("incidents"), job=self._job))
        return list(found["items"]) if found else []

    def _goodput(self) -> dict[str, Any] | None:
        found = self._service.ask(lambda driver: driver.get(path("jobs", self._job, "goodput")))
        return dict(found) if found else None

    def _exit_code(self, job: dict[str, Any]) -> int:
        if job["phase"] == "Succeeded":
            return exitcodes.OK
        if self._signals:
            return exitcodes.of_signal(self._signals[0])
        ended = job["exit"] or {}
        if ended.get("signal"):
            return exitcodes.of_signal(ended["signal"])
        return ended.get("code") or exitcodes.FAILED

    def _taken(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)
        if len(self._signals) == 1:
            self._say_stopping("", "; once more kills them now")

    def _unwritten(self, why: str) -> None:
        """A program whose output goes nowhere ends: here as at Ctrl-C, so that ranks can save."""
        self._say_stopping(f"{why}; ", "; Ctrl-C kills them now")

    def _say_stopping(self, why: str, more: str) -> None:
        if self._submitted and self._over is None:
            self._narrator.say(f"stopping: {why}the ranks have {self._options.grace_s:g} s{more}")


def _short(paths: RunPaths) -> str:
    here = find.RUNS.absolute()
    return (
        str(paths.root.relative_to(here.parent)) if here in paths.root.parents else str(paths.root)
    )
