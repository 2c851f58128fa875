"""Does what was asked for in `top`, and tells what came of it. In a thread: the driver may wait."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.cli import asking, find
from holdfast.cli.client import Client, path
from holdfast.cli.errors import Stopped
from holdfast.cli.show import sentence
from holdfast.cli.stack import blocks, missing
from holdfast.cli.top.screen import Order, Reading
from holdfast.cli.words import outcome


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
                told = find.client(self._target).get(path("incidents", order.name))
                return Reading(f"incident {order.name}: {told['summary']}", list(incident(told)))
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

    def _stacks(self, driver: Client, order: Order) -> Reading:
        told = driver.post(path("jobs", order.name, "stacks"), {"ranks": list(order.ranks)})
        lines = [line for block in blocks(told) for line in [*block.splitlines(), ""]]
        return Reading(f"stacks of {order.name}", [*missing(told), *lines])


def incident(told: dict[str, Any]) -> Iterator[str]:
    """What is known of it, a line each."""
    yield f"{'open' if told['open'] else 'over: ' + told['outcome']}"
    if told["origin"]:
        yield f"from {told['origin']} ({told['sure']}): {told['origin_why']}"
    yield from (f"{each['source']}: {each['text']}" for each in told["evidence"])
    for each in told["hypotheses"]:
        state = "chosen" if each["chosen"] else "open" if each["open"] else "closed"
        yield f"{each['hypothesis']} ({state}): {each['why']}"
    yield from (f"{stage:11} {took:.2f} s" for stage, took in told["stages_s"].items())
    for rank, text in told["stacks"].items():
        yield from ("", f"rank {rank}", *(f"  {line}" for line in text.splitlines()))
