"""What ranks did last, from traces in a run's folder: for pictures, and for a file for Perfetto.

Used by `facts`, `tracing`, and by `cli` over a run's folder. Reads files: in a thread.
"""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast.traces import read
from holdfast.traces.axes import NONE, Axes
from holdfast.traces.read import Found

MOST_SPANS = 200_000
"""As the REST interface has it at most."""
FURTHER_BACK_S = (60.0, 600.0, 3_600.0)
"""A job may have had no ranks for long before it ended."""


class Past(NamedTuple):
    """Of one job, from then to then: seconds since its submission."""

    job: str
    from_s: float
    to_s: float
    found: Found

    def answer(self, last_s: float | None = None) -> dict[str, Any]:
        """As of `GET /jobs/{job}/spans`, the last seconds of it alone. From `from_s` on all are
        there: what was left out is earlier."""
        from_s = self.from_s if last_s is None else max(self.from_s, self.to_s - last_s)
        spans = [each for each in self.found.spans if each.start_s + each.took_s >= from_s]
        told: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(self.found, spans=spans))
        return {**told, "job": self.job, "from_s": from_s, "to_s": self.to_s, "more": False}


def between(root: Path, job: str, *, from_s: float, to_s: float, axes: Axes = NONE) -> Past:
    """What its ranks did then; less of its beginning where that has more than MOST_SPANS."""
    found = read.find(root, job, from_s=from_s, to_s=to_s, limit=MOST_SPANS, newest=True, axes=axes)
    return Past(job, found.spans[0].start_s if found.more else from_s, to_s, found)


def last_of(root: Path, job: str, *, age_s: float, last_s: float, axes: Axes = NONE) -> Past:
    """The last `last_s` in which its ranks did anything, up to an hour before it ended, or before
    now; less of it where that has more than MOST_SPANS. Without spans where there are none."""
    for back_s in (last_s, *(each for each in FURTHER_BACK_S if each > last_s)):
        since_s = max(0.0, age_s - back_s)
        found = read.find(root, job, from_s=since_s, limit=MOST_SPANS, newest=True, axes=axes)
        if found.spans or not since_s:
            break
    to_s = max((each.start_s + each.took_s for each in found.spans), default=age_s)
    known_s = found.spans[0].start_s if found.more else 0.0
    from_s = max(known_s, to_s - last_s)
    spans = [each for each in found.spans if each.start_s + each.took_s >= from_s]
    return Past(job, from_s, to_s, msgspec.structs.replace(found, spans=spans))
