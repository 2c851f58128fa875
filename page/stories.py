"""Lines of a story in words, and which of them belong to an incident. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

TESTS = "tests of "
"""What the source of a line begins with that tells what tests of a node measured."""


class Sentence(NamedTuple):
    """A line in its parts: `at` is the time of day, `decided` whether it was decided, else seen."""

    at: str
    decided: bool
    source: str
    text: str
    verdict: str


def sentence(line: Mapping[str, Any]) -> str:
    """`14:02:05  driver: node-2 sent no heartbeat  -> two sources agree`; or `… decided  …`."""
    told = parts(line)
    source = f"{told.source}: " if told.source else ""
    text = f"decided  {told.text}" if told.decided else f"{source}{told.text}"
    verdict = f"  -> {told.verdict}" if told.verdict else ""
    return f"{told.at}  {text}{verdict}"


def parts(line: Mapping[str, Any]) -> Sentence:
    """The same for who sets them apart by other means."""
    decided = not line["seen"]
    return Sentence(clock(line["at"]), decided, line["source"], line["text"], line["verdict"])


def clock(at: str) -> str:
    """`2026-11-21T14:02:08.1+00:00` as `14:02:08`."""
    return at[11:19] if len(at) >= 19 else at


def clock_before(at: str, by_s: float) -> str:
    """As `clock`, of the moment so much earlier."""
    hours, minutes, seconds = map(int, clock(at).split(":"))
    past_s = round(3_600 * hours + 60 * minutes + seconds - by_s) % 86_400
    return f"{past_s // 3_600:02}:{past_s // 60 % 60:02}:{past_s % 60:02}"


def of_incident(lines: Sequence[Mapping[str, Any]], number: int) -> list[Mapping[str, Any]]:
    """From the first line of that incident to its last, with what was decided between them."""
    own = [place for place, line in enumerate(lines) if line["incident"] == number]
    return list(lines[own[0] : own[-1] + 1]) if own else []


def measured(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that tell what tests of nodes measured."""
    return [line for line in lines if line["source"].startswith(TESTS)]
