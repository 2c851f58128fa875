"""`holdfast trace pack`: spans as Parquet, by day and rank."""

from typing import Annotated, Any

import typer

from holdfast.cli.output import as_json, complain
from holdfast.cli.shared import Json, State, text
from holdfast.cli.trace import shared
from holdfast.page.words import size
from holdfast.protocol.counts import plural
from holdfast.protocol.paths import RunPaths

Named = Annotated[
    str | None, typer.Argument(metavar="[JOB]", help="Default: all with traces.", callback=text)
]
Everything = Annotated[
    bool,
    typer.Option("--everything", help="Also the files in which daemons write: the job has ended."),
]


def pack(
    job: Named = None, everything: Everything = False, state: State = None, json: Json = False
) -> None:
    """Turn files of spans into Parquet by day and rank, which DuckDB and others read.

    All but each node's newest, in which its daemon writes. Needs DuckDB.
    """
    from holdfast.traces.packed import pack as packed

    run = shared.root(state, job)
    rows: list[dict[str, Any]] = []
    for name in shared.meant(run, job):
        with shared.told():
            done = packed(RunPaths(run).traces(name), everything=everything)
        shared.say_troubles(done.troubles)
        told = {"files": done.files, "spans": done.spans, "bytes": done.octets}
        rows.append({"job": name, **told})
    if json:
        as_json(rows)
        return
    for row in rows:
        counts = f"{plural(row['files'], 'file')}, {plural(row['spans'], 'span')}"
        complain(f"{row['job']}: {counts}, {size(row['bytes'])} of Parquet")
