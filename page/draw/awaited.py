"""Where everybody waits, and for whom: of spans, and of what ranks say now. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.page.draw.busy import STOPPED, Span, end_of, kind_of, start_of

ENDED_EARLY = 0.5
"""Of ranks that stand: how much earlier than the median its last span ended, in seconds, for a rank
to be the one at which the others wait: several samples of a ring."""
FEW = 8
"""Ranks that are named one by one; of more it is said how many."""
Rows = Mapping[int, Mapping[str, Any]]


def newest(spans: Sequence[Span]) -> list[Span]:
    """Those of the newest attempt: who stood in an earlier one was ended there."""
    attempt = max((span.get("attempt", 1) for span in spans), default=1)
    return [span for span in spans if span.get("attempt", 1) == attempt]


def held(span: Span) -> bool:
    """Whether it is a wait that was under way when it was asked."""
    return not span.get("ended", True) and span.get("waited_s", 0.0) > ENDED_EARLY


def last(spans: Iterable[Span]) -> dict[int, float]:
    """When each rank last did something: one that is stopped, when that began."""
    found: dict[int, float] = {}
    stopped: dict[int, float] = {}
    for span in spans:
        if kind_of(span) != STOPPED:
            found[span["rank"]] = max(end_of(span), found.get(span["rank"], 0.0))
        elif not span.get("ended", True):
            stopped[span["rank"]] = start_of(span)
    return found | stopped


def awaited(ended: Mapping[int, float], rows: Rows, waiting: set[int]) -> tuple[int, ...]:
    """Whom the detectors say the waits end at; else, of spans alone, who ended long before most.

    Where nobody waits, not whoever runs now: a node's spans come when it sends them.
    """
    told = {row["waits_on"][0] for row in rows.values() if row.get("waits_on_count") == 1}
    named = told - waiting
    if named or not ended:
        return tuple(sorted(named))
    ends = sorted(ended.values())
    usual = ends[len(ends) // 2]
    runs = {rank for rank, row in rows.items() if row.get("state") == "runs" and not waiting}
    early = (rank for rank, end in ended.items() if end < usual - ENDED_EARLY)
    return tuple(sorted(set(early) - runs - waiting))


def where(spans: Iterable[Span], rows: Rows, waiting: set[int]) -> str:
    """The collective or message in which most wait: `all_reduce #311 (dp)`."""
    found: dict[int, str] = {}
    for span in spans:
        if held(span) and span["rank"] in waiting:
            found[span["rank"]] = named(span)
    for rank in waiting & rows.keys():
        told = rows[rank].get("waits_in", "").partition(" of ")[0]
        if told and not found.get(rank, "").startswith(f"{told} ("):
            found[rank] = told
    places = sorted(filter(None, found.values()))
    return max(places, key=places.count, default="")


def named(span: Span) -> str:
    """With its number, and in brackets the axis that it is of: where each is known."""
    number = f" #{span['number']}" if span.get("number") else ""
    axis = f" ({span['axis']})" if span.get("axis") else ""
    return f"{span.get('name', '')}{number}{axis}"


def says(
    found: Sequence[int],
    nodes: Mapping[int, str],
    ended: Mapping[int, float],
    waiting: set[int],
    place: str,
) -> str:
    """In a line: `rank 2 on node-1 has done nothing since 14.2 s; ranks 0, 1, 3 wait in …`."""
    if not found:
        return ""
    first = found[0]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    since = f"nothing since {ended[first]:.1f} s" if first in ended else "nothing in this time"
    who = f"rank {first} on {nodes.get(first, 'a node that is not known')}{more}"
    does = "has done" if len(found) == 1 else "have done"
    return f"{who} {does} {since}; {_waits(waiting, place)}"


def _waits(waiting: set[int], place: str) -> str:
    if not waiting:
        return "others went on without"
    listed = ", ".join(map(str, sorted(waiting)))
    some = f"{len(waiting):,} ranks" if len(waiting) > FEW else f"ranks {listed}"
    one = len(waiting) == 1
    who = f"rank {listed} waits" if one else f"{some} wait"
    return f"{who} in {place}" if place else who
