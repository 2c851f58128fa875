"""The command `digest`: what happened in a week, or another time."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli import asking
from holdfast.cli.errors import Stopped, misused
from holdfast.cli.output import as_json, last_word, say, table
from holdfast.cli.shared import Json, State, Url, examples
from holdfast.page.words import duration
from holdfast.protocol.counts import plural

_TIME = re.compile(r"(\d{1,6})([mhdw])")
_UNIT_S = {"m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
MOST_S = 366 * 86_400.0


def register(app: typer.Typer) -> None:
    app.command(
        "digest",
        epilog=examples("holdfast digest", "holdfast digest --since 30d --html month.html"),
    )(digest)


def digest(
    since: Annotated[str, typer.Option(metavar="TIME", help="Such as 12h, 7d or 4w.")] = "7d",
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it there, as one file.")
    ] = None,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """A week in figures: jobs, faults by kind, and the nodes that cost most."""
    asked, alive = asking.source(url, state)
    told = asked.digest(seconds(since))
    if html is not None:
        _write(html, told)
    if json:
        as_json(told)
    elif html is not None:
        say(f"the digest is in {html}")
    else:
        _show(told)
        if not alive:
            last_word()


def seconds(typed: str) -> float:
    """Raises `Stopped` (2)."""
    found = _TIME.fullmatch(typed)
    time_s = int(found[1]) * _UNIT_S[found[2]] if found else 0.0
    if not 0 < time_s <= MOST_S:
        raise misused(f"--since: {typed!r} is no time.", "Give 12h, 7d, 4w; a year at most.")
    return time_s


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
    ]
    if told["open"]:
        found.append(f"open    incident {', '.join(map(str, told['open']))}")
    if not told["whole"]:
        found.append("note    older incidents of that time are forgotten, and count nothing here")
    return found


def _write(file: Path, told: dict[str, Any]) -> None:
    from holdfast.page import report

    try:
        file.write_text(report.digest(told, lines(told)), encoding="utf-8")
    except OSError as error:
        raise Stopped(f"--html: cannot write {file}: {error.strerror}.") from error
