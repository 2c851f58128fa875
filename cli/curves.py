"""`holdfast curves [JOB]`: loss, speed and memory over a job's life. Works without a driver."""

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from holdfast.cli import asking
from holdfast.cli.output import as_json, last_word, say, table
from holdfast.cli.shared import Json, State, Url, examples
from holdfast.cli.show import Job
from holdfast.cli.tabular import As, Format, write
from holdfast.page.curves import TABLE_ROWS
from holdfast.page.words import duration

COLUMNS = ("at_s", "step", "loss", "step_s", "memory_bytes", "gpu_memory_bytes")


def register(app: typer.Typer) -> None:
    typed = ("curves", "curves my-job", "curves my-job --format csv > curves.csv")
    app.command("curves", epilog=examples(*(f"holdfast {each}" for each in typed)))(curves)


def curves(
    job: Job = None,
    form: As = Format.TABLE,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Loss, speed and memory over a job's life, and in which incident it stood still."""
    asked, alive = asking.source(url, state, job)
    told = asked.curves(asking.job_named(asked, job)["name"])
    if json:
        as_json(told)
        return
    found = list(rows(told))
    if form is not Format.TABLE:
        write(found, form)
        return
    _show(found)
    for sentence in told["missing"]:
        say(f"Not known: {sentence}")
    if not alive:
        last_word()


def rows(told: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row a moment; `incident`: the newest that it was not past then."""
    for values in zip(*(told[name] for name in COLUMNS), strict=True):
        row = dict(zip(COLUMNS, values, strict=True))
        within = (each for each in reversed(told["marks"]) if _covers(each, row["at_s"]))
        incident = next((each["incident"] for each in within), None)
        yield {"job": told["job"], **row, "incident": incident}


def _covers(mark: Mapping[str, Any], at_s: float) -> bool:
    over_s = mark["until_s"]
    return bool(mark["at_s"] <= at_s and (over_s is None or at_s < over_s))


def _show(found: list[dict[str, Any]]) -> None:
    """As many as the page has in its table, evenly spread, the last among them."""
    every = -(-len(found) // TABLE_ROWS) or 1
    shown = found[(len(found) - 1) % every :: every] if found else []
    if shown:
        heads = ("after", "step", "loss", "step time", "memory", "GPU memory", "incident")
        table(heads, map(_row, shown))
    if every > 1:
        say(f"one of {every} of {len(found):,} moments; all of them: --format csv")


def _row(row: Mapping[str, Any]) -> tuple[object, ...]:
    loss, step_s = row["loss"], row["step_s"]
    return (
        duration(row["at_s"]),
        row["step"],
        None if loss is None else f"{loss:.4g}",
        None if step_s is None else f"{step_s:.3g} s",
        _mib(row["memory_bytes"]),
        _mib(row["gpu_memory_bytes"]),
        row["incident"],
    )


def _mib(bytes_: int | None) -> str | None:
    return None if bytes_ is None else f"{bytes_ / 2**20:,.0f} MiB"
