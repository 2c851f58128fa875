"""An incident as one HTML file, from what the interface says of it.

Used by `reading`, and by `holdfast incident --html`.
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from holdfast.kit.clock import SystemClock
from holdfast.page import report
from holdfast.telemetry.analysis.alike_stacks import alike

Told = Mapping[str, Any]


def of_incident(incident: Told, job: Told, lines: Sequence[Told]) -> str:
    """The whole file, as of now. `lines`: of the job's story."""
    stacks = alike({int(rank): text for rank, text in incident["stacks"].items()})
    made = SystemClock().wall().isoformat(sep=" ", timespec="seconds")
    return report.of(incident, job, lines, stacks, made=made, version=version("holdfast"))
