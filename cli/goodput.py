"""`holdfast goodput [JOB]`: where every second went, of a job or of all. Works without a driver."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from holdfast.cli import asking
from holdfast.cli.errors import misused
from holdfast.cli.output import as_json, last_word, say, table
from holdfast.cli.shared import Json, State, Url, examples, text
from holdfast.page import spent
from holdfast.page.words import duration

UNITS_S = {"m": 60.0, "h": 3_600.0, "d": 86_400.0}
LONGEST_S = 92 * UNITS_S["d"]
"""For so long a driver keeps what jobs cost that were deleted."""
MOST = 10


def register(app: typer.Typer) -> None:
    typed = ("holdfast goodput", "holdfast goodput my-job", "holdfast goodput --since 7d")
    app.command("goodput", epilog=examples(*typed))(goodput)


def goodput(
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]", help="Default: all jobs.", show_default=False, callback=text
        ),
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Of all jobs: how far back, as 12h or 7d.")
    ] = "30d",
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Where the time went: training that was kept, done again, or lost, and to what."""
    window_s = seconds(since)
    asked, alive = asking.source(url, state, job)
    if job is None:
        told = asked.fleet_goodput(since_s=window_s, limit=MOST)
    else:
        told = asked.goodput(asked.job(job)["name"])
    if json:
        as_json(told)
        return
    (_show_fleet if job is None else _show_job)(told)
    for sentence in told["not_known"]:
        say(f"Not known: {sentence}.")
    if not alive:
        last_word()


def seconds(written: str) -> float:
    """Of `45m`, `12h`, `30d`. Raises `Stopped` (2)."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([mhd])", written)
    took_s = float(found[1]) * UNITS_S[found[2]] if found else 0.0
    if not 0.0 < took_s <= LONGEST_S:
        fix = "Give a number and m, h or d, of at most 92d: --since 7d"
        raise misused(f"--since: {written!r} is no such time.", fix)
    return took_s


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
