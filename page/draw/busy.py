"""What a rank was at, moment by moment: of its spans, which lie in each other, one at a time. Pure.

The innermost span counts. A wait is told apart from it: the first part of a collective or a message
(until the peers have come), the last part of any other span. Where a line of the timeline is too
short to see each step, its time is cut into pieces, and each piece says how it is divided: drawn
one after another, what is shortest would have a pixel each and look like the most.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Span = Mapping[str, Any]

WAITS, STOPPED, OWN = "waits", "stopped", "step"
"""`OWN`: of a step, what no other span tells."""
MEETINGS = ("collective", "p2p")
PIECE_STEPS = 3
"""So many steps in a piece, so that each has whole ones and looks like the next."""


class Segment(NamedTuple):
    """From then to then nothing but this; `span`: its place in what was given."""

    begin_s: float
    end_s: float
    kind: str
    span: int


class Piece(NamedTuple):
    """A piece of time, and the share of it that each kind had."""

    begin_s: float
    shares: dict[str, float]


def start_of(span: Span) -> float:
    """What is as by default is left out of an answer."""
    return float(span.get("start_s", 0.0))


def end_of(span: Span) -> float:
    return start_of(span) + float(span.get("took_s", 0.0))


def kind_of(span: Span) -> str:
    """A rank that a signal stopped did not pause by itself."""
    stopped = span["kind"] == "pause" and span.get("name") == STOPPED
    return STOPPED if stopped else str(span["kind"])


def segments(spans: Sequence[Span]) -> list[Segment]:
    """Of one rank, in order; none overlaps another."""
    order = sorted(range(len(spans)), key=lambda at: (start_of(spans[at]), -end_of(spans[at])))
    own = _own_waits(spans, order)
    found: list[Segment] = []
    within: list[int] = []
    now_s = 0.0
    for at in order:
        now_s = _left(spans, own, within, start_of(spans[at]), now_s, found)
        if within:
            _add(found, spans, own, within[-1], now_s, start_of(spans[at]))
        now_s = max(now_s, start_of(spans[at]))
        within.append(at)
    _left(spans, own, within, float("inf"), now_s, found)
    return found


def _left(
    spans: Sequence[Span],
    own: Sequence[float],
    within: list[int],
    until_s: float,
    now_s: float,
    found: list[Segment],
) -> float:
    """Those that are over by then are left, the innermost first."""
    while within and end_of(spans[within[-1]]) <= until_s:
        at = within.pop()
        _add(found, spans, own, at, now_s, end_of(spans[at]))
        now_s = max(now_s, end_of(spans[at]))
    return now_s


def _own_waits(spans: Sequence[Span], order: Iterable[int]) -> list[float]:
    """Of each, the waits that no span within it has."""
    own = [float(span.get("waited_s", 0.0)) for span in spans]
    within: list[int] = []
    for at in order:
        while within and end_of(spans[within[-1]]) <= start_of(spans[at]):
            within.pop()
        if within:
            own[within[-1]] -= float(spans[at].get("waited_s", 0.0))
        within.append(at)
    return [max(0.0, each) for each in own]


def _add(
    found: list[Segment],
    spans: Sequence[Span],
    own: Sequence[float],
    at: int,
    begin_s: float,
    end_s: float,
) -> None:
    """What is the span's alone: its work and its wait."""
    span, kind = spans[at], kind_of(spans[at])
    if kind in MEETINGS:
        turn_s, first, second = start_of(span) + own[at], WAITS, kind
    else:
        turn_s, first, second = end_of(span) - own[at], kind, WAITS
    turn_s = min(max(turn_s, begin_s), end_s)
    found += [
        Segment(one_s, other_s, told, at)
        for one_s, other_s, told in ((begin_s, turn_s, first), (turn_s, end_s, second))
        if other_s > one_s
    ]


def pieces(told: Iterable[Segment], from_s: float, to_s: float, piece_s: float) -> list[Piece]:
    """The same in pieces of a length, which begin at multiples of it."""
    first = int(from_s // piece_s)
    count = max(1, int(-(-to_s // piece_s)) - first)
    took: list[dict[str, float]] = [{} for _ in range(count)]
    for segment in told:
        begin_s, end_s = max(from_s, segment.begin_s), min(to_s, segment.end_s)
        while begin_s < end_s:
            at = min(count - 1, int(begin_s // piece_s) - first)
            until_s = max((first + at + 1) * piece_s, begin_s + 1e-9)
            share = (min(end_s, until_s) - begin_s) / piece_s
            took[at][segment.kind] = took[at].get(segment.kind, 0.0) + share
            begin_s = until_s
    return [Piece((first + at) * piece_s, each) for at, each in enumerate(took) if each]
