"""`holdfast goodput [JOB]`: where every second went, of a job or of all. Works without a driver."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from holdfast.cli import asking
from holdfast.cli.output import as_json, last_word, say, table
from holdfast.cli.shared import Json, State, Url, examples, text
from holdfast.cli.since import Since, seconds
from holdfast.cli.tabular import As, Format, write
from holdfast.page import spent
from holdfast.page.words import duration

MOST_DAYS = 92
"""For so long a driver keeps what jobs cost that were deleted."""
MOST = 10


def register(app: typer.Typer) -> None:
    typed = ("goodput", "goodput my-job", "goodput --since 7d", "goodput --format csv > lost.csv")
    app.command("goodput", epilog=examples(*(f"holdfast {each}" for each in typed)))(goodput)


def goodput(
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]", help="Default: all jobs.", show_default=False, callback=text
        ),
    ] = None,
    since: Since = "30d",
    form: As = Format.TABLE,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Where the time went: training that was kept, done again, or lost, and to what."""
    window_s = seconds(since, most_days=MOST_DAYS)
    asked, alive = asking.source(url, state, job)
    if job is None:
        told = asked.fleet_goodput(since_s=window_s, limit=MOST)
    else:
        told = asked.goodput(asked.job(job)["name"])
    if json:
        as_json(told)
        return
    if form is not Format.TABLE:
        write(list(rows(told)), form)
        return
    (_show_fleet if job is None else _show_job)(told)
    for sentence in told["not_known"]:
        say(f"Not known: {sentence}.")
    if not alive:
        last_word()


def rows(told: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Each second once, of a job or of all: what it was spent on, and in which incident.

    Of all jobs an incident's share is not known by bucket: there, no row has an incident.
    """
    rest_s = dict(told["buckets_s"])
    for cost in told.get("incidents", ()):
        for bucket, took_s in cost["buckets_s"].items():
            rest_s[bucket] -= took_s
            yield _row(told, bucket, took_s, cost)
    for bucket, took_s in rest_s.items():
        if took_s > 0.0:
            yield _row(told, bucket, took_s, {})


def _row(
    told: Mapping[str, Any], bucket: str, took_s: float, cost: Mapping[str, Any]
) -> dict[str, Any]:
    named = {name: cost.get(name) for name in ("id", "kind", "node")}
    return {"job": told.get("job") or None, "bucket": bucket, "seconds": took_s, **named}


def _show_job(told: Mapping[str, Any]) -> None:
    say(f"{told['job']}: {spent.headline(told)}")
    _buckets(told)
    if costs := told["incidents"]:
        heads = ("incident", "kind", "node", "lost", "most of it", "what")
        table(heads, map(_cost, costs))
    others = {cause: s for cause, s in told["by_kind_s"].items() if cause not in _kinds(costs)}
    for cause, lost_s in others.items():
        say(f"{cause}: {duration(lost_s)}")


def _show_fleet(told: Mapping[str, Any]) -> None:
    jobs = f"{told['jobs']:,} job{'' if told['jobs'] == 1 else 's'}"
    say(f"{jobs} in {duration(told['window_s'])}: {spent.headline(told)}")
    _buckets(told)
    for name in ("kind", "node"):
        if shares := told[f"by_{name}"]:
            heads = (name, "lost", "share", "incidents", "jobs")
            table(heads, [_share(each, told) for each in shares])


def _buckets(told: Mapping[str, Any]) -> None:
    wall_s, buckets_s = told["wall_s"], told["buckets_s"]
    rows = [
        (name, duration(took_s), spent.share(took_s, wall_s), spent.WORDS.get(name, ""))
        for name, took_s in buckets_s.items()
    ]
    if rows:
        table(("spent on", "time", "share", "which is"), rows)


def _kinds(costs: list[dict[str, Any]]) -> set[str]:
    return {each["kind"] for each in costs}


def _cost(cost: Mapping[str, Any]) -> tuple[object, ...]:
    most = spent.most(cost["buckets_s"])[:2]
    what = cost["summary"] or "kept no longer"
    return cost["id"], cost["kind"], cost["node"], duration(cost["lost_s"]), ", ".join(most), what


def _share(each: Mapping[str, Any], told: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        each["name"],
        duration(each["lost_s"]),
        spent.share(each["lost_s"], told["lost_s"]),
        each["incidents"] or None,
        each["jobs"],
    )
