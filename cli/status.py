"""`holdfast status JOB` for people: does it make progress, and what was lost to what.

Called by `show.status`. What is said is in `page.status`, for the page shows the same.
"""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.cli import asking
from holdfast.cli.client import Problem
from holdfast.cli.output import console, last_word, toned
from holdfast.kit.plain import visible
from holdfast.page import spent, status
from holdfast.page.waterfall import waterfall
from holdfast.page.words import FINISHED, duration

if TYPE_CHECKING:
    from rich.console import Group

REFRESH_S = 1.0
WATERFALL_CHARACTERS = 30
TOLD_PIDS = 16
"""Ranks whose processes fit on two lines."""


def once(asked: asking.Source, name: str | None, *, alive: bool) -> None:
    shown = console()
    shown.print(_page(asked, asking.job_named(asked, name), [], alive=alive))
    if not alive:
        last_word()


def watch(asked: asking.Source, name: str | None) -> None:
    """Live, until the job has ended or Ctrl-C."""
    from rich.live import Live

    losses: list[float] = []
    pause = threading.Event()
    with Live(console=console(), auto_refresh=False) as live:
        while True:
            job = asking.job_named(asked, name)
            if job["loss"] is not None:
                losses.append(job["loss"])
            live.update(_page(asked, job, losses), refresh=True)
            if job["phase"] in FINISHED:
                return
            pause.wait(REFRESH_S)


def _page(
    asked: asking.Source, job: dict[str, Any], losses: list[float], *, alive: bool = True
) -> "Group":
    from rich.console import Group
    from rich.markup import escape
    from rich.text import Text

    incidents = asked.incidents(job["name"])
    state = asking.state_of(job, alive=alive)
    since = f" after {duration(job['age_s'])}"
    if job["phase"] not in FINISHED:
        was = "" if alive else f"; it had been {job['phase']}"
        since = f"{was} for {duration(job['since_s'])}"
    found = asked.readiness()
    since += ", as last written down" if found.stale else ""
    lines = [
        f"[bold]{job['name']}[/bold]  {toned(state)}{since}",
        *([] if found.ready or not found.why else [f"driver  {escape(found.why)}"]),
        *lines_of(status.progress(job, losses)),
        *lines_of(status.standing(job, incidents)),
        *lines_of(status.stored(job, incidents)),
        *_lost(job, incidents),
        *_spent(asked, job),
        *lines_of(status.meets(job)),
        *lines_of(status.attempt(job)),
        f"nodes   {_cells(job)}",
        *_pids(job),
        *lines_of(status.decided(job)),
        *lines_of(status.ended(job)),
        *lines_of(status.waits(job)),
    ]
    if incidents:
        lines.append(f"more    holdfast why {job['name']}")
    return Group(*(Text.from_markup(visible(line)) for line in lines))


def lines_of(facts: Sequence[status.Fact]) -> list[str]:
    """One each, in rich's mark-up, of which nothing that is quoted has any."""
    from rich.markup import escape

    return [f"{fact.label:8}{escape(fact.text)}" for fact in facts]


def _pids(job: dict[str, Any]) -> list[str]:
    """Which process on its node each rank is, where a line can tell; `--json` has all of them."""
    told = [pair for place in job["places"] for pair in place.get("pids", {}).items()]
    if not told or len(told) > TOLD_PIDS or job["phase"] in FINISHED:
        return []  # a driver of before does not tell
    return [f"pids    {', '.join(f'rank {rank}: {pid}' for rank, pid in told)}"]


def _lost(job: dict[str, Any], incidents: list[dict[str, Any]]) -> list[str]:
    """What was lost so far, and the last recovery as a waterfall."""
    lines, last = [status.lost(job, incidents)], status.last_of(incidents)
    if last is None:
        return lines_of(lines)
    if last.get("latest", last["summary"]) not in job["why"]:
        lines.append(status.latest(last, job))
    bars = [
        f"        {bar.stage:11}{' ' * round(bar.start * WATERFALL_CHARACTERS)}"
        f"{'━' * max(1, round(bar.share * WATERFALL_CHARACTERS))} {bar.took_s:.2f} s"
        for bar in waterfall(last["stages_s"])
    ]
    return [*lines_of(lines), *bars]


def _spent(asked: asking.Source, job: dict[str, Any]) -> list[str]:
    """Where its time went, in a bar. A driver of before does not tell; one that cannot read its
    journal has all the rest to tell."""
    from rich.markup import escape

    try:
        told = spent.line(asked.goodput(job["name"]))
    except Problem as problem:
        told = "" if problem.status == 404 else f"not known: {escape(problem.sentence)}"
    return [f"time    {told}"] if told else []


def _cells(job: dict[str, Any]) -> str:
    """A cell a node: green connected, red not there; standbys dim."""
    cells = [
        f"[{'green' if place['connected'] else 'red'}]■[/] {place['node'] or 'none'}"
        for place in job["places"]
    ]
    cells += [f"[dim]□ {name} (standby)[/dim]" for name in job["standbys"]]
    none = "none: given back" if job["phase"] in FINISHED else "none yet"
    return "  ".join(cells) or none
