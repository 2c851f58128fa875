"""`holdfast trace export`: spans as a file that Perfetto reads."""

import math
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.errors import Stopped, misused
from holdfast.cli.output import as_json, complain
from holdfast.cli.shared import Json, State, text
from holdfast.cli.trace import shared
from holdfast.page.words import size
from holdfast.protocol.counts import plural

Named = Annotated[str, typer.Argument(metavar="JOB", help="Whose spans.", callback=text)]
Perfetto = Annotated[
    Path | None,
    typer.Option("--perfetto", metavar="FILE", help="Default: JOB.pftrace", dir_okay=False),
]
From = Annotated[float, typer.Option("--from", min=0, help="Seconds since its submission.")]
To = Annotated[float | None, typer.Option("--to", min=0, help="Until then. Default: its end.")]
MOST = 5_000_000
"""Spans in one file: some 500 MB, more than a browser opens."""


def export(
    job: Named,
    perfetto: Perfetto = None,
    from_s: From = 0.0,
    to_s: To = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Write a job's spans as a trace in Perfetto's format, to open in https://ui.perfetto.dev."""
    from holdfast.kit.files import write_atomic
    from holdfast.traces import read
    from holdfast.traces.perfetto import trace

    until_s = math.inf if to_s is None else to_s
    if until_s < from_s:
        raise misused(f"--to {until_s:g} is before --from {from_s:g}.", "Give a later time.")
    run = shared.root(state, job)
    name = shared.the_one(run, job)
    axes = shared.axes(run, [name])[name]
    found = read.find(run, name, from_s=from_s, to_s=until_s, limit=MOST, axes=axes)
    shared.say_troubles(found.troubles)
    if not found.spans:
        raise Stopped(f"{name} has no spans of that time.", fix="What there is: holdfast trace ls")
    path = perfetto or Path(f"{name}.pftrace")
    with shared.told():
        write_atomic(path, b"".join(trace(found.spans)))
    if json:
        as_json({"file": str(path), "spans": len(found.spans), "more": found.more})
        return
    ranks = plural(len({span.rank for span in found.spans}), "rank")
    octets = size(path.stat().st_size)
    complain(f"{path}: {plural(len(found.spans), 'span')} of {ranks}, {octets}")
    if found.more:
        complain(f"later ones were left out: there are more than {MOST:,}. Narrow it: --from, --to")
