"""`holdfast ranks`: each rank of a job, where, how far, what it does and for whom it waits."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from holdfast.cli import asking
from holdfast.cli.output import as_json, last_word, say, table
from holdfast.cli.shared import Json, State, Url, examples
from holdfast.cli.show import Job
from holdfast.cli.tabular import As, Format, write
from holdfast.page.words import ranks as ranks_in_words


class Sort(StrEnum):
    """By what."""

    RANK = "rank"
    STILL = "still"
    STEP = "step"
    WAIT = "wait"


Row = Mapping[str, Any]
ORDERS: dict[Sort, Callable[[Row], Any]] = {
    Sort.RANK: lambda row: row["rank"],
    Sort.STILL: lambda row: -row.get("still_s", 0.0),
    Sort.STEP: lambda row: row.get("step", 0),
    Sort.WAIT: lambda row: (-row.get("waits_on_count", 0), -_waited_s(row)),
}


def register(app: typer.Typer) -> None:
    app.command("ranks", epilog=examples("holdfast ranks", "holdfast ranks my-job --sort still"))(
        ranks
    )


def ranks(
    job: Job = None,
    sort: Annotated[
        Sort, typer.Option("--sort", help="Longest still, least steps, or longest wait first.")
    ] = Sort.RANK,
    form: As = Format.TABLE,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Each rank of a job: node, pid, state, step, phase, for whom it waits, its last line."""
    asked, alive = asking.source(url, state, job)
    found = asked.ranks(asking.job_named(asked, job)["name"])
    rows = sorted(found["ranks"], key=ORDERS[sort])
    if json:
        as_json({**found, "ranks": rows})
        return
    if form is not Format.TABLE:
        write(rows, form)
        return
    if rows:
        heads = ("rank", "node", "pid", "state", "step", "phase", "still", "waits for", "last")
        table(heads, map(_cells, rows))
    for said in _below(found, rows):
        say(said)
    if not alive:
        last_word()


def _cells(row: Row) -> tuple[object, ...]:
    still_s = row.get("still_s", 0.0)
    return (
        row["rank"],
        row["node"],
        row.get("pid") or None,
        row.get("state", "unseen"),
        row.get("step"),
        row.get("phase"),
        f"{still_s:.1f} s" if still_s >= 1.0 else None,
        _waits(row),
        row.get("last_line") or row.get("frame"),
    )


def _waits(row: Row) -> str | None:
    on, count = row.get("waits_on", []), row.get("waits_on_count", 0)
    if not on:
        return None
    more = f" and {count - len(on)} more" if count > len(on) else ""
    return f"{ranks_in_words(on)}{more} in {row['waits_in']}"


def _waited_s(row: Row) -> float:
    return float((row.get("spent") or {}).get("waits_s", 0.0))


def _below(found: Mapping[str, Any], rows: list[Row]) -> list[str]:
    """What is said below the table: why there is nothing, and what detectors say."""
    said = [found["nothing"]] if found.get("nothing") else []
    told = [row for row in rows if row.get("verdict")]
    return said + [f"rank {row['rank']} on {row['node']}: {row['verdict']}" for row in told]
