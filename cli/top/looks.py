"""Asks the driver what `top` shows, in a thread of its own: keys work while it does not answer."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.cli import asking, find
from holdfast.cli.client import Problem, path
from holdfast.cli.errors import Stopped
from holdfast.cli.top.facts import Facts, Told
from holdfast.kit.clock import SystemClock

PERIOD_S = 1.0
LOSSES = 120
"""Of the chosen job that are kept for its sparkline: two minutes."""


class Looks:
    """The newest `Facts`; `chosen` says of which job. `seen` is called after each look."""

    def __init__(
        self, url: str | None, state: Path | None, job: str | None, seen: Callable[[], None]
    ) -> None:
        self.facts = Facts()
        self.chosen = job or ""
        self._url, self._state, self._named = url, state, job
        self._seen = seen
        self._again = threading.Event()
        self._over = False
        self.failed: Exception | None = None
        self._losses: dict[str, list[float]] = {}
        self._has_rows = True

    def choose(self, job: str) -> None:
        """Show this one, at once."""
        if job and job != self.chosen:
            self.chosen = job
            self._again.set()

    def run(self) -> None:
        """Look each second until `end`, or a defect of ours, which is then in `failed`."""
        try:
            while not self._over:
                self._again.clear()
                self.look()
                self._seen()
                self._again.wait(PERIOD_S)
        except Exception as error:  # noqa: BLE001 whoever shows the screen raises it there
            self.failed = error
            self._seen()

    def end(self) -> None:
        self._over = True
        self._again.set()

    def look(self) -> None:
        """Once. Where the driver does not answer, what it told before stays."""
        try:
            self.facts = self._asked()
        except Stopped as stopped:
            why = f"{stopped.sentence} {stopped.fix}".strip()
            self.facts = replace(self.facts, away=why)

    def _asked(self) -> Facts:
        source, alive = asking.source(self._url, self._state, self._named, warns=False)
        jobs = source.jobs()
        job = self._job(jobs)
        found = source.readiness()
        return Facts(
            at=SystemClock().wall().astimezone().strftime("%H:%M:%S"),
            alive=alive,
            stale=found.why if alive and not found.ready else "",
            jobs=jobs,
            nodes=source.nodes(),
            job=job["name"] if job else "",
            ranks=self._ranks(job["name"]) if job and alive else (),
            incidents=list(reversed(source.incidents(job["name"]))) if job else (),
            losses=self._loss(job) if job else (),
        )

    def _job(self, jobs: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """The one that is chosen, else the newest."""
        there = {job["name"]: job for job in jobs}
        return there.get(self.chosen) or (jobs[-1] if jobs else None)

    def _loss(self, job: Told) -> Sequence[float]:
        known = self._losses.setdefault(job["name"], [])
        if job["loss"] is not None:
            known.append(job["loss"])
            del known[:-LOSSES]
        return tuple(known)

    def _ranks(self, job: str) -> Sequence[Told]:
        """A row each. A driver of before has no such route, and tells less with the progress."""
        driver = find.client(find.Target(url=self._url, state=self._state, job=self._named))
        if self._has_rows:
            try:
                return rows(driver.get(path("jobs", job, "ranks")))
            except Problem as problem:
                if problem.status != 404:
                    raise
                self._has_rows = False
        return rows(driver.get(path("jobs", job, "progress")))


def rows(told: Mapping[str, Any] | None) -> Sequence[Told]:
    found: Sequence[Told] = (told or {}).get("ranks", ())
    return found
