"""A job's spans from a run's folder, for the page, the API and the command line.

Reads blocks as daemons left them, also while they write, and what was packed into Parquet.
"""

import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from holdfast.protocol.paths import RunPaths
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
) -> Found:
    """The same, with how sure the times are, and what is missing. `newest`: of more than `limit`
    the last are told, not the first."""
    reading = Reading()
    found: list[Span] = []
    errors: dict[str, float] = {}
    dropped, submitted_s = 0, -math.inf
    traces = RunPaths(folder).traces(job)
    for segment in segments(traces):
        for block in reading.blocks(segment.path, from_s=from_s, to_s=to_s):
            if block.job != job or block.submitted_s < submitted_s:
                continue  # an earlier job had the name
            if block.submitted_s > submitted_s:
                found, errors, dropped, submitted_s = [], {}, 0, block.submitted_s
            errors[block.node] = block.error_s
            dropped += block.dropped
            found += (each for each in block.spans if _wanted(each, from_s, to_s, ranks))
    asked = {"from_s": from_s, "to_s": to_s, "ranks": ranks, "submitted_s": submitted_s}
    unpacked = len(found)
    troubles = [*reading.troubles, *_packed(traces, found, limit, **asked, newest=newest)]
    cut = len(found) - unpacked > limit  # though some of them may be words on the same span
    told = longest(found)
    return Found(
        spans=told[-limit:] if newest else told[:limit],
        clock_error_s=errors,
        dropped=dropped,
        more=cut or len(told) > limit,
        troubles=tuple(troubles),
    )


def _packed(traces: Path, found: list[Span], limit: int, **asked: Any) -> tuple[str, ...]:
    """Add what was packed; in a sentence, why it could not be."""
    from holdfast.traces import packed, tables

    if not packed.has_packed(traces):
        return ()
    try:
        found += packed.spans_of(traces, limit=limit + 1, **asked)
    except tables.NotInstalled as why:
        return (f"{traces}: what was packed is not shown: {why}",)
    except Exception as error:  # noqa: BLE001 a file of somebody else's, or a torn one
        return (f"{traces}: what was packed cannot be read: {str(error).splitlines()[0]}",)
    return ()


def _wanted(span: Span, from_s: float, to_s: float, ranks: Collection[int] | None) -> bool:
    inside = span.start_s <= to_s and span.start_s + span.took_s >= from_s
    return inside and (ranks is None or span.rank in ranks)
