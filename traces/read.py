"""A job's spans from a run's folder, for the page, the API and the command line.

Reads blocks as daemons left them, also while they write, and what was packed into Parquet.
"""

import math
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec

from holdfast.protocol.paths import RunPaths
from holdfast.traces.axes import NONE, Axes
from holdfast.traces.model import Span, longest
from holdfast.traces.segments import Reading, segments

LIMIT = 100_000


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What there is of a time. `clock_error_s`: by node. `more`: spans were left out, the latest
    ones, or the earliest where the newest were asked for: there are more than the limit."""

    spans: list[Span]
    clock_error_s: dict[str, float]
    dropped: int = 0
    more: bool = False
    troubles: tuple[str, ...] = ()


def spans(
    folder: Path,
    job: str,
    *,
    from_s: float = 0.0,
    to_s: float = math.inf,
    ranks: Collection[int] | None = None,
    limit: int = LIMIT,
) -> list[Span]:
    """Of the run in `folder`, from then to then (seconds since the job's submission), in the order
    in which they began. Raises nothing: what cannot be read is left out."""
    return find(folder, job, from_s=from_s, to_s=to_s, ranks=ranks, limit=limit).spans


def find(
    folder: Path,
    job: str,
    *,
    from_s: float = 0.0,
    to_s: float = math.inf,
    ranks: Collection[int] | None = None,
    limit: int = LIMIT,
    newest: bool = False,
    axes: Axes = NONE,
) -> Found:
    """The same, with how sure the times are, and what is missing. `newest`: of more than `limit`
    the last are told, not the first. `axes`: of the job, to be put into its spans."""
    reading = Reading()
    found = _Few(limit, newest=newest)
    errors: dict[str, float] = {}
    dropped, submitted_s = 0, -math.inf
    traces = RunPaths(folder).traces(job)
    for segment in segments(traces):
        for block in reading.blocks(segment.path, from_s=from_s, to_s=to_s):
            if block.job != job or block.submitted_s < submitted_s:
                continue  # an earlier job had the name
            if block.submitted_s > submitted_s:
                found, errors, dropped = _Few(limit, newest=newest), {}, 0
                submitted_s = block.submitted_s
            errors[block.node] = block.error_s
            dropped += block.dropped
            found.add(each for each in block.spans if _wanted(each, from_s, to_s, ranks))
    asked = {"from_s": from_s, "to_s": to_s, "ranks": ranks, "submitted_s": submitted_s}
    troubles = [*reading.troubles, *_packed(traces, found, limit, **asked, newest=newest)]
    return Found(
        spans=[*map(axes.named, found.told())],
        clock_error_s=errors,
        dropped=dropped,
        more=found.more,
        troubles=tuple(troubles),
    )


class _Few:
    """The first or last spans of all that are added, and in memory no more than twice as many: an
    hour of thousands of ranks has millions. Ask whether there are `more` once they are `told`."""

    def __init__(self, limit: int, *, newest: bool) -> None:
        self._limit, self._newest, self._room = limit, newest, 2 * limit
        self._spans: list[Span] = []
        self._border_s = -math.inf if newest else math.inf
        self.more = False

    def add(self, spans: Iterable[Span]) -> None:
        self._spans += filter(self._inside, spans)
        if len(self._spans) > self._room:
            self._cut()

    def told(self) -> list[Span]:
        """In the order in which they began."""
        self._cut()
        return self._spans[-self._limit :] if self._newest else self._spans[: self._limit]

    def _cut(self) -> None:
        """Those that begin with the last one stay: which comes first is open until all is known."""
        self._spans = longest(self._spans)
        if len(self._spans) > self._limit:
            self.more = True
            self._border_s = self._spans[-self._limit if self._newest else self._limit - 1].start_s
            self._spans = [*filter(self._inside, self._spans)]
        self._room = 2 * max(self._limit, len(self._spans))

    def _inside(self, span: Span) -> bool:
        newest, border_s = self._newest, self._border_s
        return span.start_s >= border_s if newest else span.start_s <= border_s


def _packed(traces: Path, found: _Few, limit: int, **asked: Any) -> tuple[str, ...]:
    """Add what was packed; in a sentence, why it could not be."""
    from holdfast.traces import packed, tables

    if not packed.has_packed(traces):
        return ()
    try:
        rows = [*packed.spans_of(traces, limit=limit + 1, **asked)]
        found.add(rows)
        found.more |= len(rows) > limit  # though some of them may be words on the same span
    except tables.NotInstalled as why:
        return (f"{traces}: what was packed is not shown: {why}",)
    except Exception as error:  # noqa: BLE001 a file of somebody else's, or a torn one
        return (f"{traces}: what was packed cannot be read: {str(error).splitlines()[0]}",)
    return ()


def _wanted(span: Span, from_s: float, to_s: float, ranks: Collection[int] | None) -> bool:
    inside = span.start_s <= to_s and span.start_s + span.took_s >= from_s
    return inside and (ranks is None or span.rank in ranks)
