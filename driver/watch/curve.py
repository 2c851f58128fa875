"""A job's curves: loss, speed and memory over its life, of a bounded number of moments. Pure.

Made by `driver.follow.curves` of what `Watch` tells each second. Once there are `MOST` moments each
second one is left out, and from then on they are noted half as often: so a curve is as long as its
job, and never larger than 2 * 6 * 8 * MOST bytes.
"""

from array import array
from math import isfinite, nan
from typing import Any, NamedTuple

import msgspec

from holdfast.kit import holes as kit_holes

MOST = 480
"""More than a screen shows of a line, and 48 KB a job at most."""
EVERY_S = 1.0
"""At first."""
MOST_HOLES = 8


class Moment(NamedTuple):
    """`step`: the last that all ranks have completed, `step_s` the median of late. None: nobody
    told. `memory_bytes`: of the rank that has most resident, without its children;
    `gpu_memory_bytes`: of the GPU of its nodes of which most is in use."""

    step: int | None
    loss: float | None
    step_s: float | None
    memory_bytes: int | None
    gpu_memory_bytes: int | None = None


FIELDS = Moment._fields


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """As it is in a file. `job_s`: when the job was submitted, on the driver's clock: another job
    may have had its name."""

    job_s: float
    every_s: float
    at_s: list[float]
    step: list[float | None]
    loss: list[float | None]
    step_s: list[float | None]
    memory_bytes: list[float | None]
    gpu_memory_bytes: list[float | None] = []  # of an earlier version there is none


class Curve:
    """Of one job. Filled in place; times are seconds since its submission."""

    def __init__(self, job_s: float) -> None:
        self.job_s = job_s
        self.every_s = EVERY_S
        self._at_s = array("d")
        self._columns = {name: array("d") for name in FIELDS}

    def note(self, at_s: float, moment: Moment) -> None:
        """Unless that is too soon after the last one."""
        if self._at_s and at_s - self._at_s[-1] < 0.9 * self.every_s:
            return
        self._at_s.append(at_s)
        for name, value in zip(FIELDS, moment, strict=True):
            told = value is not None and isfinite(value)
            self._columns[name].append(float(value) if told and value is not None else nan)
        if len(self._at_s) > MOST:
            self._thin()

    def _thin(self) -> None:
        self.every_s *= 2
        self._at_s = self._at_s[::2]
        self._columns = {name: column[::2] for name, column in self._columns.items()}

    def stored(self) -> Stored:
        told: dict[str, Any] = {name: _plain(column) for name, column in self._columns.items()}
        return Stored(job_s=self.job_s, every_s=self.every_s, at_s=list(self._at_s), **told)


def of(stored: Stored) -> Curve:
    """The curve that was stored. Raises `ValueError` where its columns are not alike in length."""
    curve = Curve(stored.job_s)
    curve.every_s = stored.every_s
    columns = {name: getattr(stored, name) for name in FIELDS}
    columns["gpu_memory_bytes"] = columns["gpu_memory_bytes"] or [None] * len(stored.at_s)
    if {len(column) for column in columns.values()} != {len(stored.at_s)}:
        raise ValueError("its columns are not of one length")
    curve._at_s = array("d", stored.at_s)
    curve._columns = {
        name: array("d", [nan if value is None else value for value in column])
        for name, column in columns.items()
    }
    return curve


def _plain(column: "array[float]") -> list[float | None]:
    return [value if isfinite(value) else None for value in column]


def holes(stored: Stored) -> list[tuple[float, float]]:
    """From when to when nothing was noted, the longest of them, in order."""
    found = kit_holes.holes(stored.at_s, stored.every_s)
    return sorted(sorted(found, key=lambda each: each[0] - each[1])[:MOST_HOLES])
