"""The timeline: what each rank did when, a line a rank; waits are the hatched part. A layout; pure.

Of the answer of `GET /jobs/{job}/spans`, and, for what is under way at its end and so has no span
yet, of `GET /jobs/{job}/ranks`. Where there are more ranks than lines, those that differ have one,
and some of the others, evenly spread.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Span = Mapping[str, Any]

MOST_LINES = 256
"""A line has two pixels at least."""
ENDED_EARLY = 0.5
"""Of ranks that stand: how much earlier than the median its last span ended, in seconds, for a rank
to be the one at which the others wait: several samples of a ring."""


class Bar(NamedTuple):
    """A span on a line. `wait`: the first so many pixels of it are a wait."""

    rank: int
    kind: str
    name: str
    x: float
    y: float
    width: float
    height: float
    wait: float
    open: bool  # under way when it was asked


class Line(NamedTuple):
    """Of one rank."""

    rank: int
    node: str
    y: float
    ended_x: float  # where its last span ends


class Timeline(NamedTuple):
    """The whole picture; times in seconds since the job was submitted."""

    lines: tuple[Line, ...]
    bars: tuple[Bar, ...]
    from_s: float
    to_s: float
    height: float
    line_height: float
    left_out: int  # ranks without a line
    awaited: tuple[int, ...]  # ranks that did nothing while others waited
    says: str


def timeline(
    answer: Mapping[str, Any], ranks: Mapping[str, Any] | None = None, *, width: float = 900.0
) -> Timeline:
    """Bars over `width` pixels. `ranks`: who waits at the end, where that is known."""
    spans: Sequence[Span] = answer["spans"]
    rows = {row["rank"]: row for row in (ranks or {}).get("ranks", ())}
    from_s, to_s = _bounds(answer, spans)
    last = _last(spans)
    waiting = {rank for rank, row in rows.items() if row.get("state") == "waits"}
    held = waiting | {span["rank"] for span in spans if _held(span)}
    awaited = _awaited(last, rows, held)
    known = sorted(last.keys() | waiting | set(awaited))
    chosen = _chosen(known, awaited)
    height = line_height(len(chosen))
    scale = width / max(to_s - from_s, 1e-9)
    at = {rank: place * height for place, rank in enumerate(chosen)}
    nodes = {span["rank"]: span["node"] for span in spans}
    nodes |= {rank: row["node"] for rank, row in rows.items()}
    bars = [_bar(each, from_s, scale, at, height) for each in spans if each["rank"] in at]
    bars += _open(rows, waiting & at.keys(), (from_s, to_s), scale, at, height)
    return Timeline(
        lines=tuple(
            Line(rank, nodes.get(rank, ""), y, (last.get(rank, from_s) - from_s) * scale)
            for rank, y in at.items()
        ),
        bars=tuple(_merged(bars)),
        from_s=from_s,
        to_s=to_s,
        height=len(chosen) * height,
        line_height=height,
        left_out=len(known) - len(chosen),
        awaited=awaited,
        says=_says(awaited, nodes, last, len(held), to_s),
    )


def line_height(lines: int) -> float:
    """Eighteen pixels where there are few; never under two."""
    return max(2.0, min(18.0, 720.0 / max(lines, 1)))


def _bounds(answer: Mapping[str, Any], spans: Sequence[Span]) -> tuple[float, float]:
    ends = [_end(span) for span in spans]
    from_s = answer.get("from_s")
    to_s = answer.get("to_s")
    first = min(map(_start, spans), default=0.0) if from_s is None else from_s
    end = max(ends, default=first) if to_s is None else to_s
    return float(first), float(max(end, first))


def _start(span: Span) -> float:
    """What is as by default is left out of an answer."""
    return float(span.get("start_s", 0.0))


def _end(span: Span) -> float:
    return _start(span) + float(span.get("took_s", 0.0))


def _held(span: Span) -> bool:
    """Whether it is a wait that was under way when it was asked."""
    return not span.get("ended", True) and span.get("waited_s", 0.0) > ENDED_EARLY


def _last(spans: Iterable[Span]) -> dict[int, float]:
    """When the last span of each rank ended; one under way has not."""
    found: dict[int, float] = {}
    for span in spans:
        end = _end(span)
        found[span["rank"]] = max(end, found.get(span["rank"], end))
    return found


def _awaited(
    last: Mapping[int, float], rows: Mapping[int, Mapping[str, Any]], waiting: set[int]
) -> tuple[int, ...]:
    """Whom the detectors say the waits end at; else, of spans alone, who ended long before most."""
    ended = {row["waits_on"][0] for row in rows.values() if row.get("waits_on_count") == 1}
    named = ended - waiting
    if named or not last:
        return tuple(sorted(named))
    ends = sorted(last.values())
    usual = ends[len(ends) // 2]
    early = (rank for rank, end in last.items() if end < usual - ENDED_EARLY)
    return tuple(sorted(early))


def _chosen(known: Sequence[int], awaited: Iterable[int]) -> list[int]:
    if len(known) <= MOST_LINES:
        return list(known)
    kept = set(list(awaited)[: MOST_LINES // 2])
    each = -(-len(known) // (MOST_LINES - len(kept)))
    return sorted(kept | set(known[::each]))[:MOST_LINES] if kept else list(known[::each])


def _bar(span: Span, from_s: float, scale: float, at: Mapping[int, float], height: float) -> Bar:
    rank, kind = span["rank"], span["kind"]
    x = max(0.0, (_start(span) - from_s) * scale)
    wide = max(0.0, (_end(span) - from_s) * scale - x)
    wait = min(wide, max(0.0, span.get("waited_s", 0.0)) * scale)
    tall = height * (0.35 if kind == "step" else 0.8)
    under_way = not span.get("ended", True)
    return Bar(rank, kind, span.get("name", ""), x, at[rank], wide, tall, wait, under_way)


def _open(
    rows: Mapping[int, Mapping[str, Any]],
    waiting: Iterable[int],
    bounds: tuple[float, float],
    scale: float,
    at: Mapping[int, float],
    height: float,
) -> list[Bar]:
    """What is waited for at the end, which has no span before it is over."""
    from_s, to_s = bounds
    found = []
    for rank in sorted(waiting):
        begin_s = max(from_s, to_s - rows[rank].get("still_s", 0.0))
        x, wide = (begin_s - from_s) * scale, (to_s - begin_s) * scale
        name = rows[rank].get("waits_in", "")
        found.append(Bar(rank, "collective", name, x, at[rank], wide, height * 0.8, wide, True))
    return found


NARROW = 0.5
"""Pixels below which spans of one kind that touch are one bar."""


def _merged(bars: Iterable[Bar]) -> list[Bar]:
    """What nobody can see apart is drawn once: a day has millions of spans."""
    found: list[Bar] = []
    for bar in sorted(bars, key=lambda each: (each.rank, each.kind, each.x)):
        last = found[-1] if found else None
        near = last is not None and (last.rank, last.kind, last.open) == (
            bar.rank,
            bar.kind,
            bar.open,
        )
        if (
            last is not None
            and near
            and max(last.width, bar.width) < NARROW * 4
            and (bar.x - (last.x + last.width) < NARROW)
        ):
            end = max(last.x + last.width, bar.x + bar.width)
            found[-1] = last._replace(width=end - last.x, wait=last.wait + bar.wait)
        else:
            found.append(bar)
    return found


def _says(
    awaited: Sequence[int],
    nodes: Mapping[int, str],
    last: Mapping[int, float],
    waiting: int,
    to_s: float,
) -> str:
    if not awaited:
        return ""
    first = awaited[0]
    since = f", which has done nothing for {to_s - last[first]:.1f} s" if first in last else ""
    who = f"{waiting} ranks wait for" if waiting else "others went on without"
    more = f" and {len(awaited) - 1} more" if len(awaited) > 1 else ""
    return f"{who} rank {first} on {nodes.get(first, 'a node that is not known')}{more}{since}"
