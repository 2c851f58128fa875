"""`holdfast status JOB` for people: does it make progress, and what was lost to what.

Called by `show.status`.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.cli import asking, spent
from holdfast.cli.client import Problem
from holdfast.cli.output import console, last_word, toned
from holdfast.cli.words import counted, duration, repeats, sparkline
from holdfast.driver.core.state.model import FINISHED, Phase
from holdfast.kit.plain import visible
from holdfast.protocol import collectives
from holdfast.protocol.counts import plural
from holdfast.protocol.faults import Kind

if TYPE_CHECKING:
    from rich.console import Group

REFRESH_S = 1.0
WATERFALL_CHARACTERS = 30
TOLD_PIDS = 16
"""Ranks whose processes fit on two lines."""

STORE_REPORTS = {
    Kind.STORE_FAILED: Kind.STORE_FAILED,
    Kind.STORE_BACK: Kind.STORE_FAILED,
    Kind.STORE_NOT_SHARED: Kind.STORE_NOT_SHARED,
    Kind.STORE_SHARED: Kind.STORE_NOT_SHARED,
    Kind.STORE_FILLS: Kind.STORE_FILLS,
    Kind.STORE_SWEPT: Kind.STORE_FILLS,
}
"""By kind of a report: which trouble of the store it tells of, or takes back."""


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
        *_progress(job, losses),
        *_standing(job, incidents, "slow", Kind.SLOW, over=Kind.KEEPS_PACE),
        *_standing(job, incidents, "unseen", Kind.UNSEEN, over=Kind.SEEN_AGAIN),
        *stored(job, incidents),
        *_lost(job, incidents),
        *_spent(asked, job),
        *meets(job),
        *attempt(job),
        f"nodes   {_cells(job)}",
        *_pids(job),
        *_last(job),
    ]
    if job["phase"] in FINISHED and job["exit"]:
        lines.append(f"ended   {escape(_ended(job['exit']))}")
    if job["waiting"]:
        unsure = job.get("unsure_s")
        since = f" (for {duration(unsure)})" if unsure is not None else ""
        lines.append(f"waits   {escape(job['waiting'])}{since}")
    if incidents:
        lines.append(f"more    holdfast why {job['name']}")
    return Group(*(Text.from_markup(visible(line)) for line in lines))


def _pids(job: dict[str, Any]) -> list[str]:
    """Which process on its node each rank is, where a line can tell; `--json` has all of them."""
    told = [pair for place in job["places"] for pair in place.get("pids", {}).items()]
    if not told or len(told) > TOLD_PIDS or job["phase"] in FINISHED:
        return []  # a driver of before does not tell
    return [f"pids    {', '.join(f'rank {rank}: {pid}' for rank, pid in told)}"]


def _last(job: dict[str, Any]) -> list[str]:
    """The last decision, but where that is only that the job waits, which is told as such."""
    from rich.markup import escape

    why = job["why"] or "nothing was decided yet"
    waits = job["waiting"].startswith(why.removeprefix(f"{job['name']} waits: "))
    return [] if waits else [f"last    {escape(why)}"]


def meets(job: dict[str, Any]) -> list[str]:
    """Where its ranks meet, and what NCCL and gloo are told, as far as others are told otherwise;
    `--json` has all of it."""
    from rich.markup import escape

    place = job.get("rendezvous", "")  # a driver of before tells neither
    parts = [place] * bool(place) + collectives.unusual(job.get("communication", {}))
    return [f"meets   {escape(' · '.join(parts))}"] if parts else []


def _ended(first: dict[str, Any]) -> str:
    """The end that explains the others, and how many those are."""
    how = f"by signal {first['signal']}" if first["signal"] else f"with exit code {first['code']}"
    more = f", and {first['more']:,} more" if first.get("more") else ""
    return f"rank {first['rank']} on {first['node']} {how}{more}"


def _progress(job: dict[str, Any], losses: list[float]) -> list[str]:
    parts = []
    if job["step"] is not None:
        parts.append(f"step {job['step']:,}{' of this attempt' if job['step_relative'] else ''}")
    if (start := job.get("again_from")) is not None:  # a driver of before does not tell
        parts[0] += f", the furthest so far; it goes on from step {start:,}"
    if job["step_s"] is not None:
        best = f" (best {job['best_step_s']:.3g} s)" if job["best_step_s"] is not None else ""
        parts.append(f"{job['step_s']:.3g} s a step{best}")
    if job["tokens_per_s"] is not None:
        parts.append(f"{job['tokens_per_s']:,.0f} tokens/s")
    if job["loss"] is not None:
        parts.append(f"loss {job['loss']:.4g} {sparkline(losses)}".rstrip())
    return [f"at      {' · '.join(parts)}"] if parts else []


def _standing(
    job: dict[str, Any],
    incidents: Sequence[Mapping[str, Any]],
    name: str,
    kind: Kind,
    *,
    over: Kind,
) -> list[str]:
    """What was told of a job that runs, and not taken back since: the newest of each rank."""
    from rich.markup import escape

    told: dict[tuple[Any, Any], str] = {}
    for each in incidents if job["phase"] not in FINISHED else ():
        if each["kind"] == kind:
            told[each["node"], each["rank"]] = each["summary"]
        elif each["kind"] == over:
            told.clear()
    return [f"{name:<7} {escape(text)}" for text in told.values()]


def stored(job: dict[str, Any], incidents: Sequence[Mapping[str, Any]]) -> list[str]:
    """What it goes on from where nothing is left in memory, and what is wrong with the store."""
    from rich.markup import escape

    amiss = [f"        {escape(text)}" for text in _amiss(job, incidents)]
    if job.get("unsaved_step") is not None:  # a driver of before tells of none
        amiss.append(f"        step {job['unsaved_step']:,} did not reach it")
    if job["stored_step"] is not None:
        ago = "" if job["stored_s"] is None else f", {duration(job['stored_s'])} ago"
        return [f"store   step {job['stored_step']:,}{ago}", *_tainted(job), *amiss]
    every = job["spec"].get("spec", {}).get("checkpoint", {}).get("storeIntervalSteps")
    asked = every and (amiss or job["step"] is not None)
    yet = "" if job["phase"] in FINISHED else " yet"
    return [f"store   no checkpoint{yet}", *_tainted(job), *amiss] if asked else []


def _tainted(job: dict[str, Any]) -> list[str]:
    """What is saved and not started from, and why."""
    from rich.markup import escape

    return [
        f"        step {each['step']:,} in {each['where']} is not used: {escape(each['why'])}"
        for each in job.get("restore_points", ())  # a driver of before tells of none
        if each["status"] == "tainted"
    ]


def _amiss(job: dict[str, Any], incidents: Sequence[Mapping[str, Any]]) -> list[str]:
    """What was reported of its store and not taken back since, for as long as it trains."""
    if job["phase"] in FINISHED:
        return []
    last = {
        STORE_REPORTS[each["kind"]]: each for each in incidents if each["kind"] in STORE_REPORTS
    }
    return [each["summary"] for kind, each in last.items() if each["kind"] == kind]


def attempt(job: dict[str, Any]) -> list[str]:
    """How often its ranks were started, of which version of the job, and how they lie."""
    layout = job.get("layout")
    if not layout or not job["attempt"]:
        return []
    size = f"{plural(job['ranks'], 'rank')} on {plural(layout['nodes'], 'node')}"
    which = f", layout {layout['number']}" if layout["number"] else ""
    return [f"attempt {job['attempt']} of version {job['version']}: {size}{which}"]


def _lost(job: dict[str, Any], incidents: list[dict[str, Any]]) -> list[str]:
    """What was lost so far, and the last recovery as a waterfall."""
    from rich.markup import escape

    if not incidents:
        return [f"lost    nothing: no fault{'' if job['phase'] in FINISHED else ' so far'}"]
    down_s = sum(each["down_s"] or 0 for each in incidents)
    steps = sum(each["steps_lost"] or 0 for each in incidents)
    faults = counted(incidents) or "no fault"
    last = next((each for each in reversed(incidents) if each["faults"]), incidents[-1])
    unseen = any(each["steps_lost"] and not each["step"] for each in incidents)
    least = "at least " if unseen else ""
    redone = f", {least}{plural(steps, 'step')} done again in that time" if steps else ""
    redone += " and what its script repeats" if repeats(incidents) else ""
    waits = any(each["faults"] and each["down_s"] is None for each in incidents)
    never = "not known, for it has not trained since"
    yet = never if job["phase"] in FINISHED else "not known yet"
    none = yet if waits else "nothing"
    lost = f"{duration(down_s)} to {faults}{redone}" if down_s else f"{none}: {faults}"
    latest = last.get("latest", last["summary"])
    lines = [f"lost    {lost}"]
    if latest not in job["why"]:
        lines.append(f"{'last' if last['faults'] else 'told':8}{escape(latest)}{_still(last, job)}")
    total = sum(last["stages_s"].values())
    begin = 0.0
    for stage, took in last["stages_s"].items():
        before = round(begin / total * WATERFALL_CHARACTERS) if total else 0
        width = max(1, round(took / total * WATERFALL_CHARACTERS)) if total else 1
        lines.append(f"        {stage:11}{' ' * before}{'━' * width} {took:.2f} s")
        begin += took
    return lines


def _spent(asked: asking.Source, job: dict[str, Any]) -> list[str]:
    """Where its time went, in a bar. A driver of before does not tell; one that cannot read its
    journal has all the rest to tell."""
    from rich.markup import escape

    try:
        told = spent.line(asked.goodput(job["name"]))
    except Problem as problem:
        told = "" if problem.status == 404 else f"not known: {escape(problem.sentence)}"
    return [f"time    {told}"] if told else []


def _still(incident: dict[str, Any], job: dict[str, Any]) -> str:
    """Whether it is over: a job that does again what was lost trains, and loses no more."""
    if not incident["open"] or incident["recovered_s"] is not None:
        return ""
    runs_again = job["phase"] == Phase.RUNNING and "fork" in incident["stages_s"]
    return ", not yet as far as it was" if runs_again else ", not back yet"


def _cells(job: dict[str, Any]) -> str:
    """A cell a node: green connected, red not there; standbys dim."""
    cells = [
        f"[{'green' if place['connected'] else 'red'}]■[/] {place['node'] or 'none'}"
        for place in job["places"]
    ]
    cells += [f"[dim]□ {name} (standby)[/dim]" for name in job["standbys"]]
    none = "none: given back" if job["phase"] in FINISHED else "none yet"
    return "  ".join(cells) or none
