"""An incident as one HTML file that opens anywhere: no script, nothing from elsewhere. Pure.

Called by `holdfast incident --html`. What ranks and people wrote is text there, whatever it is:
Jinja2 escapes each value, and the file forbids its own scripts.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from holdfast.kit.plain import visible
from holdfast.telemetry.analysis.alike_stacks import alike

Told = Mapping[str, Any]


def of(incident: Told, job: Told, lines: Sequence[Told], *, made: str, version: str) -> str:
    """The whole file. `lines`: of the job's story, all; `made`: when, for people."""
    made_file: str = _template("report.html").render(
        incident=incident,
        job=job,
        lines=[each for each in lines if each["incident"] == incident["number"]],
        bars=bars(incident["stages_s"]),
        stacks=alike({int(rank): text for rank, text in incident["stacks"].items()}),
        made=made,
        version=version,
    )
    return made_file


def bars(stages_s: Mapping[str, float]) -> list[dict[str, Any]]:
    """The waterfall: of each stage its share of the width, and what came before it, in percent."""
    total = sum(stages_s.values())
    found, before = [], 0.0
    for name, took in stages_s.items():
        share = 100 * took / total if total else 0.0
        found.append({"name": name, "took": took, "before": round(before, 3), "share": share})
        before += share
    return found


def digest(told: Told, lines: Sequence[str]) -> str:
    """The digest as such a file. `lines`: its figures as sentences."""
    return str(_template("digest.html").render(told=told, lines=lines))


def _template(name: str) -> Any:
    loader = FileSystemLoader(Path(__file__).with_name("templates"))
    made = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=lambda value: visible(value) if isinstance(value, str) else value,
    )
    return made.get_template(name)
