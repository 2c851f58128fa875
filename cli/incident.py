"""The command `incident`: one incident, as text, as JSON, or as a file that opens anywhere."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli import asking, hypotheses
from holdfast.cli.errors import Stopped
from holdfast.cli.output import as_json, last_word, say, table
from holdfast.cli.shared import Json, State, Url, examples, text
from holdfast.cli.show import Job
from holdfast.cli.tabular import As, Format, write
from holdfast.page.stories import sentence
from holdfast.page.words import duration


def register(app: typer.Typer) -> None:
    app.command(
        "incident",
        epilog=examples("holdfast incident my-job", "holdfast incident my-job 3 --html 3.html"),
    )(incident)
    app.command(
        "incidents",
        epilog=examples("holdfast incidents", "holdfast incidents my-job --format csv"),
    )(incidents)


def incident(
    job: Annotated[str, typer.Argument(metavar="JOB", callback=text)],
    number: Annotated[
        int | None,
        typer.Argument(metavar="[ID]", min=1, help="Default: the newest.", show_default=False),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write it there, as one file that opens anywhere."),
    ] = None,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """One incident of a job: what was seen, what was decided, what it cost."""
    asked, alive = asking.source(url, state, job)
    about = asked.job(job)
    found = _chosen(asked.incidents(about["name"]), about["name"], number)
    lines = asked.story(about["name"])["lines"]
    if html is not None:
        _write(html, found, about, lines)
    if json:
        own = [line for line in lines if line["incident"] == found["number"]]
        as_json({**found, "lines": own})
        return
    if html is not None:
        say(f"incident {found['number']} of {about['name']} is in {html}")
        return
    for line in told(found, lines):
        say(line)
    hypotheses.show(found["hypotheses"])
    if not alive:
        last_word()


def incidents(
    job: Job = None,
    form: As = Format.TABLE,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """List the incidents of a job, oldest first."""
    asked, alive = asking.source(url, state, job)
    found = asked.incidents(asking.job_named(asked, job)["name"])
    if json:
        as_json(found)
    elif form is not Format.TABLE:
        write(found, form)
    else:
        table(COLUMNS, map(_row, found))
        if not found:
            say("no incident")
    if not alive and form is Format.TABLE and not json:
        last_word()


COLUMNS = ("number", "state", "kind", "node", "cost", "what")


def _row(each: dict[str, Any]) -> tuple[object, ...]:
    cost = None if each["down_s"] is None else duration(each["down_s"])
    state = "open" if each["open"] else "over"
    return (each["number"], state, each["kind"], each["node"], cost, each["latest"])


def _chosen(known: list[dict[str, Any]], job: str, number: int | None) -> dict[str, Any]:
    """The one of this number, else the newest. Raises `Stopped` with those that there are."""
    if not known:
        raise Stopped(f"{job} had no incident.", fix=f"How it is: holdfast status {job}")
    if number is None:
        return known[-1]
    there = {each["number"]: each for each in known}
    if number not in there:
        listed = ", ".join(map(str, there))
        raise Stopped(f"{job} had no incident {number}.", fix=f"There is {listed}.")
    return there[number]


def told(found: dict[str, Any], lines: list[dict[str, Any]]) -> Iterator[str]:
    """What is known of it, a line each."""
    over = "not over yet" if found["open"] else f"over: {found['outcome']}"
    yield f"incident {found['number']}: {found['latest']} ({over})"
    if found["origin"]:
        yield f"  from {found['origin']} ({found['sure']}): {found['origin_why']}"
    if found["down_s"] is not None:
        lost = f", {found['steps_lost']} steps again" if found["steps_lost"] else ""
        yield f"  cost {duration(found['down_s'])}{lost}"
    yield from (f"  {sentence(each)}" for each in lines if each["incident"] == found["number"])


def _write(file: Path, found: dict[str, Any], job: dict[str, Any], lines: Any) -> None:
    from holdfast.driver.adapters.page import reports

    try:
        file.write_text(reports.of_incident(found, job, lines), encoding="utf-8")
    except OSError as error:
        raise Stopped(f"--html: cannot write {file}: {error.strerror}.") from error
