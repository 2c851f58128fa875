"""The timeline: what each rank did when, a line a rank; waits are hatched. A layout; pure.

Of the answer of `GET /jobs/{job}/spans`, and, for what is under way at its end and so has no span
yet, of `GET /jobs/{job}/ranks`. Where there are more ranks than lines, those that differ have one,
and some of the others, evenly spread. Where steps are too short to be seen one by one, a bar is as
high as its kind's share of a piece of time (`busy`).
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from holdfast.page.draw import awaited, busy
from holdfast.page.draw.busy import WAITS, Segment, Span, end_of, start_of

MOST_LINES = 256
"""A line has two pixels at least."""
SEEN = 6.0
"""Pixels of a step from which on it is drawn as it was; shorter ones as shares of pieces."""
FILLED = 0.85
"""Of a line's height."""
MOST_PIECES = 20_000
"""Bars of a picture of shares, or so: what has many lines has longer pieces."""


class Bar(NamedTuple):
    """What a rank was at, on its line: kinds of spans, `step` where no other tells, `waits`, and
    `stopped`, by a signal."""

    rank: int
    kind: str
    name: str
    x: float
    y: float
    width: float
    height: float
    open: bool  # under way when it was asked


class Line(NamedTuple):
    """Of one rank."""

    rank: int
    node: str
    y: float
    steps: tuple[float, ...]  # where its steps begin, where they are seen one by one


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
    answer: Mapping[str, Any],
    ranks: Mapping[str, Any] | None = None,
    *,
    width: float = 900.0,
    seen: float = SEEN,
) -> Timeline:
    """Bars over `width` pixels. `ranks`: who waits at the end, where that is known."""
    spans: Sequence[Span] = answer["spans"]
    rows = {row["rank"]: row for row in (ranks or {}).get("ranks", ())}
    from_s, to_s = _bounds(answer, spans)
    newest = awaited.newest(spans)
    last = awaited.last(newest)
    waiting = {rank for rank, row in rows.items() if row.get("state") == "waits"}
    held = waiting | {span["rank"] for span in newest if awaited.held(span)}
    found = awaited.awaited(last, rows, held)
    nodes = {span["rank"]: span["node"] for span in spans}
    known = sorted(nodes.keys() | waiting | set(found))
    nodes |= {rank: row["node"] for rank, row in rows.items()}
    chosen = _chosen(known, found)
    by_rank: dict[int, list[Span]] = {rank: [] for rank in chosen}
    for span in spans:
        if span["rank"] in by_rank:
            by_rank[span["rank"]].append(span)
    for rank, told in by_rank.items():
        by_rank[rank] = _until_now(told, rows.get(rank), from_s, to_s)
    scale = width / max(to_s - from_s, 1e-9)
    height = line_height(len(chosen))
    layout = _Layout(from_s, to_s, scale, height, _piece_s(spans, scale, seen, width * len(chosen)))
    return Timeline(
        lines=tuple(
            Line(rank, nodes.get(rank, ""), place * height, layout.steps(by_rank[rank]))
            for place, rank in enumerate(chosen)
        ),
        bars=tuple(
            bar
            for place, rank in enumerate(chosen)
            for bar in layout.bars(rank, by_rank[rank], place * height)
        ),
        from_s=from_s,
        to_s=to_s,
        height=len(chosen) * height,
        line_height=height,
        left_out=len(known) - len(chosen),
        awaited=found,
        says=awaited.says(found, nodes, last, held, awaited.where(newest, rows, held)),
    )


def line_height(lines: int) -> float:
    """Twenty-eight pixels where there are few; never under two."""
    return max(2.0, min(28.0, 720.0 / max(lines, 1)))


def _bounds(answer: Mapping[str, Any], spans: Sequence[Span]) -> tuple[float, float]:
    ends = [end_of(span) for span in spans]
    from_s = answer.get("from_s")
    to_s = answer.get("to_s")
    first = min(map(start_of, spans), default=0.0) if from_s is None else from_s
    end = max(ends, default=first) if to_s is None else to_s
    return float(first), float(max(end, first))


def _chosen(known: Sequence[int], awaited: Iterable[int]) -> list[int]:
    if len(known) <= MOST_LINES:
        return list(known)
    kept = set(list(awaited)[: MOST_LINES // 2])
    each = -(-len(known) // (MOST_LINES - len(kept)))
    return sorted(kept | set(known[::each]))[:MOST_LINES] if kept else list(known[::each])


def _until_now(
    spans: list[Span], row: Mapping[str, Any] | None, from_s: float, to_s: float
) -> list[Span]:
    """With what is under way at the end, of which the last was not sent yet: a wait, a stop."""
    state = row.get("state") if row else ""
    kinds = {"waits": busy.MEETINGS, "stopped": ("pause",)}.get(state or "", ())
    under_way = (each for each in spans if each["kind"] in kinds and not each.get("ended", True))
    told = max(under_way, key=start_of, default=None)
    if told is not None:
        more_s = max(0.0, to_s - end_of(told))
        waited_s = told.get("waited_s", 0.0) + (more_s if state == "waits" else 0.0)
        longer = {**told, "took_s": told.get("took_s", 0.0) + more_s, "waited_s": waited_s}
        return [longer if each is told else each for each in spans]
    if row is None or state != "waits":
        return spans
    still_s = min(to_s - from_s, row.get("still_s", 0.0))
    told = {"rank": row["rank"], "kind": "collective", "name": row.get("waits_in", "")}
    times = {"start_s": to_s - still_s, "took_s": still_s, "waited_s": still_s}
    return [*spans, {**told, **times, "ended": False}]


def _piece_s(spans: Iterable[Span], scale: float, seen: float, pixels: float) -> float | None:
    """How long pieces are; None: steps are long enough to be seen."""
    steps = [float(span.get("took_s", 0.0)) for span in spans if span["kind"] == "step"]
    step_s = median(steps) if steps else 0.0
    if not 0 < step_s * scale < seen:
        return None
    return max(busy.PIECE_STEPS * step_s, 1.0 / scale, 3 * pixels / MOST_PIECES / scale)


class _Layout(NamedTuple):
    """How spans become bars."""

    from_s: float
    to_s: float
    scale: float
    height: float
    piece_s: float | None

    def steps(self, spans: Iterable[Span]) -> tuple[float, ...]:
        if self.piece_s is not None:
            return ()
        begins = (start_of(span) for span in spans if span["kind"] == "step")
        return tuple((each - self.from_s) * self.scale for each in begins if each > self.from_s)

    def bars(self, rank: int, spans: Sequence[Span], y: float) -> Iterable[Bar]:
        told = busy.segments(spans)
        if self.piece_s is not None:
            return self._shares(rank, told, y, self.piece_s)
        return _merged(filter(None, (self._bar(rank, spans, each, y) for each in told)))

    def _bar(self, rank: int, spans: Sequence[Span], told: Segment, y: float) -> Bar | None:
        begin_s, end_s = max(self.from_s, told.begin_s), min(self.to_s, told.end_s)
        if end_s <= begin_s:
            return None
        x, wide = (begin_s - self.from_s) * self.scale, (end_s - begin_s) * self.scale
        span = spans[told.span]
        under_way = not span.get("ended", True)
        tall = self.height * FILLED
        return Bar(rank, told.kind, span.get("name", ""), x, y, wide, tall, under_way)

    def _shares(
        self, rank: int, told: Iterable[Segment], y: float, piece_s: float
    ) -> Iterable[Bar]:
        """From below: what the rank does, and above it what it waits."""
        tall = self.height * FILLED
        for piece in busy.pieces(told, self.from_s, self.to_s, piece_s):
            begin_s = max(self.from_s, piece.begin_s)
            end_s = min(self.to_s, piece.begin_s + piece_s)
            x, wide = (begin_s - self.from_s) * self.scale, (end_s - begin_s) * self.scale
            whole = max((end_s - begin_s) / piece_s, sum(piece.shares.values()))
            below = y + tall
            for kind in sorted(piece.shares, key=lambda kind: (kind == WAITS, kind)):
                high = tall * piece.shares[kind] / whole
                below -= high
                yield Bar(rank, kind, "", x, below, wide, high, False)


NARROW = 2.0
"""Pixels of bars of one kind that are one bar where they touch."""


def _merged(bars: Iterable[Bar]) -> Iterable[Bar]:
    """What nobody can see apart is drawn once."""
    last: Bar | None = None
    for bar in bars:
        if last is not None and last.kind == bar.kind and _near(last, bar):
            last = last._replace(width=bar.x + bar.width - last.x, open=bar.open)
            continue
        if last is not None:
            yield last
        last = bar
    if last is not None:
        yield last


def _near(one: Bar, other: Bar) -> bool:
    """A step that begins right after another is seen by its line."""
    return other.x - (one.x + one.width) < 0.1 and max(one.width, other.width) < NARROW
