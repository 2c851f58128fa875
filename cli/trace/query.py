"""`holdfast trace query`: a question in SQL over a run's spans."""

from typing import Annotated, Any

import typer

from holdfast.cli.output import as_json, table
from holdfast.cli.shared import Json, State, text
from holdfast.cli.trace import shared
from holdfast.protocol.paths import RunPaths

Sql = Annotated[str, typer.Argument(metavar="SQL", help="Of DuckDB.", callback=text)]


def query(sql: Sql, job: shared.Job = None, state: State = None, json: Json = False) -> None:
    """Ask in SQL: of the views spans, steps, collectives, waits and incidents (docs/traces.md).

    Needs DuckDB: pip install 'holdfast[trace]'. Nothing can be written, and no other file read.
    """
    from holdfast.traces.tables import tables

    run = shared.root(state, job)
    meant = shared.meant(run, job)
    folders = [RunPaths(run).traces(each) for each in meant]
    with shared.told(), tables(folders, axes=shared.axes(run, meant)) as asked:
        names, rows = asked.ask(sql)
        shared.say_troubles(asked.troubles)
    if json:
        as_json([dict(zip(names, map(_plain, row), strict=True)) for row in rows])
    else:
        table(names, (tuple(map(_shown, row)) for row in rows))


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bool | None) else str(value)


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "-" if value is None else value
