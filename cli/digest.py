"""The command `digest`: what happened in a week, or another time."""

from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli import asking
from holdfast.cli.errors import Stopped
from holdfast.cli.output import as_json, last_word, say, table
from holdfast.cli.shared import Json, State, Url, examples
from holdfast.cli.since import Since, seconds
from holdfast.cli.tabular import As, Format
from holdfast.cli.tabular import write as write_rows
from holdfast.page import spent
from holdfast.page.words import duration
from holdfast.protocol.counts import plural

MOST_DAYS = 366


def register(app: typer.Typer) -> None:
    app.command(
        "digest",
        epilog=examples(
            "holdfast digest",
            "holdfast digest --since 30d --html month.html",
            "holdfast digest --format csv > week.csv",
        ),
    )(digest)


def digest(
    since: Since = "7d",
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it there, as one file.")
    ] = None,
    form: As = Format.TABLE,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """A week in figures: jobs, faults by kind, and the nodes that cost most."""
    asked, alive = asking.source(url, state)
    told = asked.digest(seconds(since, most_days=MOST_DAYS))
    if html is not None:
        _write(html, told)
    if json:
        as_json(told)
    elif form is not Format.TABLE:
        write_rows(rows(told), form)
    elif html is not None:
        say(f"the digest is in {html}")
    else:
        _show(told)
        if not alive:
            last_word()


def rows(told: dict[str, Any]) -> list[dict[str, Any]]:
    """A row each kind of fault, each node, and the whole: `of` says which of them."""
    both = (("kind", told["kinds"]), ("node", told["nodes"]))
    listed = [{"of": of, "name": each[of], **each} for of, found in both for each in found]
    whole = {name: told[name] for name in ("faults", "lost_s", "steps_lost", "submitted")}
    made = [*listed, {"of": "all", "name": None, **whole}]
    return [{name: row[name] for name in row if name not in ("kind", "node")} for row in made]


def _show(told: dict[str, Any]) -> None:
    for line in lines(told):
        say(line)
    for what, first in (("kinds", "kind"), ("nodes", "node")):
        if told[what]:
            say("")
            second = {"kind": "faults", "node": "evicted"}[first]
            columns = (first, "incidents", second, "lost_s")
            table((first, "incidents", second, "lost"), _rows(told[what], columns))


def _rows(told: list[dict[str, Any]], columns: tuple[str, ...]) -> list[list[object]]:
    return [
        [duration(each[name]) if name == "lost_s" else each[name] for name in columns]
        for each in told
    ]


def lines(told: dict[str, Any]) -> list[str]:
    """Its figures as sentences."""
    phases = ", ".join(f"{count} {phase}" for phase, count in told["by_phase"].items()) or "none"
    lost = f"{duration(told['lost_s'])} lost, {plural(told['steps_lost'], 'step')} trained again"
    found = [
        f"the last {duration(told['since_s'])}",
        f"jobs    {plural(told['submitted'], 'job')} submitted; that ran or ended: {phases}",
        f"faults  {plural(told['faults'], 'fault')}, {lost}",
        *_goodput(told["goodput"]),
    ]
    if told["open"]:
        found.append(f"open    incident {', '.join(map(str, told['open']))}")
    if not told["whole"]:
        found.append("note    older incidents of that time are forgotten, and count nothing here")
    return found


def _goodput(told: dict[str, Any]) -> list[str]:
    """Of jobs that are still there, and of those that were deleted within a quarter."""
    line = spent.line(told)
    return [f"time    {spent.headline(told)}", f"        {line}"] if line else []


def _write(file: Path, told: dict[str, Any]) -> None:
    from holdfast.page import report

    try:
        file.write_text(report.digest(told, lines(told)), encoding="utf-8")
    except OSError as error:
        raise Stopped(f"--html: cannot write {file}: {error.strerror}.") from error
