"""Does what was asked for in `top`, and tells what came of it. In a thread: the driver may wait."""

import threading
from http import HTTPStatus
from pathlib import Path
from typing import Any

from holdfast.cli import asking, find
from holdfast.cli.client import Client, Problem, path
from holdfast.cli.errors import Stopped
from holdfast.cli.incident import told as incident_lines
from holdfast.cli.stack import blocks, missing
from holdfast.cli.top.screen import Order, Reading
from holdfast.page.stories import sentence
from holdfast.page.words import outcome

AGAIN_S, ASKED_AGAIN = 1.0, 4
"""The driver samples a job once at a time, and rests for so long."""


class Orders:
    """Where the driver is."""

    def __init__(self, url: str | None, state: Path | None, job: str | None) -> None:
        self._target = find.Target(url=url, state=state, job=job)

    def done(self, order: Order) -> Reading | str:
        """What is to be read, or a line; of what cannot be done: why."""
        try:
            return self._done(order)
        except Stopped as stopped:
            return f"{stopped.sentence} {stopped.fix}".strip()

    def _done(self, order: Order) -> Reading | str:
        match order.what:
            case "why":
                return self._why(order.name)
            case "incident":
                return self._incident(find.client(self._target), order)
            case "stacks":
                return self._stacks(find.client(self._target), order)
            case "stop":
                done = find.client(self._target).post(path("jobs", order.name, "stop"))
            case _:
                body = {"reason": order.reason}
                done = find.client(self._target).post(path("nodes", order.name, "evict"), body)
        return outcome(done["name"], done["why"])

    def _why(self, name: str) -> Reading:
        target = self._target
        source, _ = asking.source(target.url, target.state, target.job, warns=False)
        told = source.why(name)
        lines = [*told["details"], *map(sentence, told["lines"]), told.get("mind", ""), told["fix"]]
        return Reading(told["headline"], [line for line in lines if line])

    def _incident(self, driver: Client, order: Order) -> Reading:
        told = driver.get(path("incidents", order.name))
        story = [driver.get(path("jobs", job, "story"))["lines"] for job in told["jobs"][:1]]
        lines = list(incident_lines(told, story[0] if story else []))
        stacks = [
            line
            for rank, text in told["stacks"].items()
            for line in ("", f"rank {rank}", *text.splitlines())
        ]
        return Reading(lines[0], [*lines[1:], *stacks])

    def _stacks(self, driver: Client, order: Order) -> Reading:
        told = self._sampled(driver, order)
        lines = [line for block in blocks(told) for line in [*block.splitlines(), ""]]
        return Reading(f"stacks of {order.name}", [*missing(told), *lines])

    def _sampled(self, driver: Client, order: Order) -> dict[str, Any]:
        """The driver's answer; where somebody else has just asked, the next that it gives."""
        asked, body = path("jobs", order.name, "stacks"), {"ranks": list(order.ranks)}
        for _ in range(ASKED_AGAIN):
            try:
                return dict(driver.post(asked, body))
            except Problem as problem:
                if problem.status != HTTPStatus.TOO_MANY_REQUESTS:
                    raise
                threading.Event().wait(AGAIN_S)
        return dict(driver.post(asked, body))
