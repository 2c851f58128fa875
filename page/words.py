"""Numbers as a tired person reads them. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.protocol import origins
from holdfast.protocol.counts import plural


def duration(seconds: float) -> str:
    """`0.4 s`, `42 s`, `18 min`, `3 h 20 min`, `2 d 4 h`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"


def ranks(numbers: Sequence[int]) -> str:
    """`rank 0`, `ranks 4-7`, `ranks 0, 2-3`: never a bare number, which reads as how many."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][-1] + 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    told = ", ".join("-".join(map(str, span)) for span in spans)
    return f"rank{'' if len(numbers) == 1 else 's'} {told}" if spans else ""


def size(octets: float) -> str:
    """`512 B`, `3.1 KiB`, `16 MiB`, `2.4 GiB`."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = 0
    while octets >= 1024 and power < len(units) - 1:
        octets, power = octets / 1024, power + 1
    return (
        f"{octets:.1f} {units[power]}" if power and octets < 10 else f"{octets:.0f} {units[power]}"
    )


def outcome(name: str, why: str) -> str:
    """What came of a request, from the driver's reasons: the first of them is the request itself.

    `speech is suspended and has given its nodes back`, or `speech: it is so already`.
    """
    asked, _, then = why.partition("; ")
    said = then or asked
    return said if name in said.split() else f"{name}: {said}"


FINISHED = frozenset({"Succeeded", "Failed", "Stopped"})
"""Phases of jobs that are over, as the API names them."""

REQUESTED = frozenset({"requested", "maintenance"})
"""Kinds of incidents that somebody asked for, such as an evicted node: nothing was wrong."""


def counted(incidents: Sequence[Mapping[str, Any]]) -> str:
    """`2 faults and 1 request`: what a person asked for is no fault. "" where there was nothing."""
    asked = sum(each["faults"] for each in incidents if each["kind"] in REQUESTED)
    faults = sum(each["faults"] for each in incidents) - asked
    told = [f"{plural(faults, 'fault')}{_origins(incidents)}"] if faults else []
    return " and ".join([*told, *([plural(asked, "request")] if asked else [])])


def _origins(incidents: Sequence[Mapping[str, Any]]) -> str:
    """` (2 likely user code, 1 not sure)`: where faults come from, each with how sure that is."""
    judged = [each for each in incidents if each["faults"] and each["kind"] not in REQUESTED]
    told = Counter(origins.told(each["origin"], each["sure"]) for each in judged if "sure" in each)
    if len(told) == 1:
        return f" ({next(iter(told))})"
    return f" ({', '.join(f'{count} {words}' for words, count in told.items())})" if told else ""


def repeats(incidents: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a script began again by itself: nobody counts what it repeats, for its steps are
    counted from its own start."""
    return any(each["recovered_s"] is not None and each["steps_lost"] is None for each in incidents)


def at_least(incidents: Sequence[Mapping[str, Any]]) -> str:
    """`at least ` where a script that saves by itself began again, and nobody sees from where."""
    known = (each for each in incidents if each["steps_lost"] is not None)
    return "at least " if any(each["step"] is None for each in known) else ""


BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: list[float], width: int = 40) -> str:
    """The newest `width` values as bars between their least and their greatest."""
    shown = values[-width:]
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    span = (high - low) or 1.0
    return "".join(BARS[round((value - low) / span * (len(BARS) - 1))] for value in shown)
