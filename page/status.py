"""How a job is, in words: does it make progress, what was lost to what. Pure.

Used by `holdfast status` and by the page of a job, which show the same. `job` and `incidents` are
the API's; what a driver of before does not tell is left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.page.words import FINISHED, counted, duration, repeats, sparkline
from holdfast.protocol import collectives, origins
from holdfast.protocol.counts import plural
from holdfast.protocol.faults import ALL_CLEAR, Kind

REPORTS_BESIDE = {
    Kind.STORE_FAILED: Kind.STORE_FAILED,
    Kind.STORE_BACK: Kind.STORE_FAILED,
    Kind.STORE_NOT_SHARED: Kind.STORE_NOT_SHARED,
    Kind.STORE_SHARED: Kind.STORE_NOT_SHARED,
    Kind.STORE_FILLS: Kind.STORE_FILLS,
    Kind.STORE_SWEPT: Kind.STORE_FILLS,
    Kind.RENDEZVOUS_AWAY: Kind.RENDEZVOUS_AWAY,
    Kind.RENDEZVOUS_BACK: Kind.RENDEZVOUS_AWAY,
}
"""By kind of a report: which trouble of what is beside the job it tells of, or takes back."""

STANDING = {
    Kind.SLOW: "slow",
    Kind.LINK_SLOW: "link",
    Kind.UNSEEN: "unseen",
    Kind.LEFT_BEHIND: "behind",
    Kind.DECLINE: "slower",
}
"""What is told of a job for as long as it is so, with the word before it; in this order."""

Job = Mapping[str, Any]
Incidents = Sequence[Mapping[str, Any]]


class Fact(NamedTuple):
    """A line: what it is about, "" where it goes on with the one before, and what is so."""

    label: str
    text: str


def progress(job: Job, losses: Sequence[float] = ()) -> list[Fact]:
    """How far, how fast against its own best, and the loss; nothing before there is any."""
    parts = []
    if job["step"] is not None:
        parts.append(f"step {job['step']:,}{' of this attempt' if job['step_relative'] else ''}")
    if (start := job.get("again_from")) is not None:
        parts[0] += f", the furthest so far; it goes on from step {start:,}"
    if job["step_s"] is not None:
        best = f" (best {job['best_step_s']:.3g} s)" if job["best_step_s"] is not None else ""
        parts.append(f"{job['step_s']:.3g} s a step{best}")
    if job["tokens_per_s"] is not None:
        parts.append(f"{job['tokens_per_s']:,.0f} tokens/s")
    if job.get("mfu") is not None:
        parts.append(f"MFU {job['mfu']:.1%}")
    if job["loss"] is not None:
        parts.append(f"loss {job['loss']:.4g} {sparkline(list(losses))}".rstrip())
    return [Fact("at", " · ".join(parts))] if parts else []


def standing(job: Job, incidents: Incidents) -> list[Fact]:
    """Reports of a job that runs, that were not taken back since: the newest of each rank."""
    told: dict[tuple[str, Any, Any], str] = {}
    for each in incidents if job["phase"] not in FINISHED else ():
        if label := STANDING.get(each["kind"]):
            told[label, each["node"], each["rank"]] = each["summary"]
        elif over := ALL_CLEAR.get(each["kind"]):
            told = {key: text for key, text in told.items() if key[0] != STANDING.get(over)}
    labels = list(STANDING.values())
    return [Fact(key[0], told[key]) for key in sorted(told, key=lambda key: labels.index(key[0]))]


def stored(job: Job, incidents: Incidents) -> list[Fact]:
    """What it goes on from where nothing is left in memory, and what is wrong with the store."""
    amiss = [Fact("", text) for text in _amiss(job, incidents)]
    if job.get("unsaved_step") is not None:
        amiss.append(Fact("", f"step {job['unsaved_step']:,} did not reach it"))
    if job["stored_step"] is not None:
        ago = "" if job["stored_s"] is None else f", {duration(job['stored_s'])} ago"
        return [Fact("store", f"step {job['stored_step']:,}{ago}"), *_tainted(job), *amiss]
    every = job["spec"].get("spec", {}).get("checkpoint", {}).get("storeIntervalSteps")
    asked = every and (amiss or job["step"] is not None)
    yet = "" if job["phase"] in FINISHED else " yet"
    return [Fact("store", f"no checkpoint{yet}"), *_tainted(job), *amiss] if asked else []


def _tainted(job: Job) -> list[Fact]:
    """What is saved and not started from, and why."""
    return [
        Fact("", f"step {each['step']:,} in {each['where']} is not used: {each['why']}")
        for each in job.get("restore_points", ())
        if each["status"] == "tainted"
    ]


def _amiss(job: Job, incidents: Incidents) -> list[str]:
    """What was reported of its store and not taken back since, for as long as it trains."""
    if job["phase"] in FINISHED:
        return []
    last = {
        REPORTS_BESIDE[each["kind"]]: each for each in incidents if each["kind"] in REPORTS_BESIDE
    }
    return [each["summary"] for kind, each in last.items() if each["kind"] == kind]


def lost(job: Job, incidents: Incidents) -> Fact:
    """What was lost so far, and to what."""
    if not incidents:
        return Fact("lost", f"nothing: no fault{'' if job['phase'] in FINISHED else ' so far'}")
    down_s = sum(each["down_s"] or 0 for each in incidents)
    steps = sum(each["steps_lost"] or 0 for each in incidents)
    faults = counted(incidents) or "no fault"
    unknown = any(each["steps_lost"] and not each["step"] for each in incidents)
    least = "at least " if unknown else ""
    redone = f", {least}{plural(steps, 'step')} done again in that time" if steps else ""
    redone += " and what its script repeats" if repeats(incidents) else ""
    waits = any(each["faults"] and each["down_s"] is None for each in incidents)
    never = "not known, for it has not trained since"
    yet = never if job["phase"] in FINISHED else "not known yet"
    none = yet if waits else "nothing"
    return Fact(
        "lost", f"{duration(down_s)} to {faults}{redone}" if down_s else f"{none}: {faults}"
    )


def last_of(incidents: Incidents) -> Mapping[str, Any] | None:
    """The last that was a fault, else the last that was told of."""
    faults = (each for each in reversed(incidents) if each["faults"])
    return next(faults, incidents[-1]) if incidents else None


def latest(incident: Mapping[str, Any], job: Job) -> Fact:
    """The last fault, and whether it is over."""
    text = incident.get("latest", incident["summary"])
    return Fact("last" if incident["faults"] else "told", f"{text}{still(incident, job)}")


def still(incident: Mapping[str, Any], job: Job) -> str:
    """Whether it is over: a job that does again what was lost trains, and loses no more."""
    if not incident["open"] or incident["recovered_s"] is not None:
        return ""
    runs_again = job["phase"] == "Running" and "fork" in incident["stages_s"]
    return ", not yet as far as it was" if runs_again else ", not back yet"


def meets(job: Job) -> list[Fact]:
    """Where its ranks meet, and what NCCL and gloo are told, as far as others are told otherwise;
    `--json` has all of it."""
    place = job.get("rendezvous", "")
    parts = [place] * bool(place) + collectives.unusual(job.get("communication", {}))
    return [Fact("meets", " · ".join(parts))] if parts else []


def attempt(job: Job) -> list[Fact]:
    """How often its ranks were started, of which version of the job, and how they lie."""
    layout = job.get("layout")
    if not layout or not job["attempt"]:
        return []
    size = f"{plural(job['ranks'], 'rank')} on {plural(layout['nodes'], 'node')}"
    which = f", layout {layout['number']}" if layout["number"] else ""
    return [Fact("attempt", f"{job['attempt']} of version {job['version']}: {size}{which}")]


def decided(job: Job) -> list[Fact]:
    """The last decision, but where that is only that the job waits, which is told as such."""
    why = job["why"] or "nothing was decided yet"
    waits = job["waiting"].startswith(why.removeprefix(f"{job['name']} waits: "))
    return [] if waits else [Fact("last", why)]


def ended(job: Job) -> list[Fact]:
    """The end that explains the others, and how many those are, of a job that is over."""
    first = job["exit"]
    if job["phase"] not in FINISHED or not first:
        return []
    how = f"by signal {first['signal']}" if first["signal"] else f"with exit code {first['code']}"
    more = f", and {first['more']:,} more" if first.get("more") else ""
    return [Fact("ended", f"rank {first['rank']} on {first['node']} {how}{more}")]


def waits(job: Job) -> list[Fact]:
    """What it waits for, if it does."""
    if not job["waiting"]:
        return []
    unsure = job.get("unsure_s")
    since = f" (for {duration(unsure)})" if unsure is not None else ""
    return [Fact("waits", f"{job['waiting']}{since}")]


def origin_of(incident: Mapping[str, Any]) -> str:
    """Where it comes from, how sure that is, and by what."""
    where = origins.told(incident["origin"], incident["sure"])
    return f"{where}: {incident['origin_why']}"
