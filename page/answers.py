"""What a person wants to know of a job first, each as a question with its answer. Pure.

Used by the page of a job. Must not say anything that `status` and `why` do not.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from holdfast.page import status
from holdfast.page.status import Incidents, Job
from holdfast.page.stories import clock, clock_before
from holdfast.page.tones import BAD, GOOD, PLAIN, WAITS
from holdfast.page.words import FINISHED, duration


class Answer(NamedTuple):
    """`tone`: one of `tones`, which is told in words as well. `incident`: which has more of it."""

    question: str
    text: str
    tone: str = PLAIN
    incident: int | None = None


def answers(job: Job, incidents: Incidents, why: Mapping[str, Any]) -> list[Answer]:
    """In the order in which they are asked at three in the morning."""
    pace = _pace(job)
    return [
        _moves(job),
        *([Answer("How fast?", pace)] if pace else []),
        Answer("What was lost?", status.lost(job, incidents).text),
        _stopped(job, incidents, why),
        Answer("What can be done?", todo(job, why)),
    ]


def state_of(job: Job) -> str:
    """Its phase, but where it is over without having ended: then what became of it."""
    return str(job.get("state") or job["phase"])


def _moves(job: Job) -> Answer:
    """Whether it makes progress, and why not."""
    ask, phase, since = "Is it progressing?", job["phase"], duration(job["since_s"])
    if phase in FINISHED:
        tone = {"Succeeded": GOOD, "Failed": BAD}.get(phase, WAITS)
        why = job["failure"]["reason"] if job["failure"] else ""
        said = f"It is over: {phase} after {duration(job['age_s'])}. {why}".rstrip()
        return Answer(ask, said, tone)
    if (state := state_of(job)) != phase:
        return Answer(ask, f"No: it {state}; it had been {phase} for {since}.", BAD)
    if job["parked"] or job["waiting"]:
        return Answer(ask, f"No: {job['parked'] or job['waiting']}.", WAITS)
    if phase != "Running":
        return Answer(ask, f"Not now: it has been {phase} for {since}.", WAITS)
    return Answer(ask, *_trains(job, since))


def _trains(job: Job, since: str) -> tuple[str, str]:
    if job["step"] is None:
        return f"It has been running for {since}; no step was seen yet.", WAITS
    if (start := job.get("again_from")) is not None:
        return f"It does again what was lost, from step {start:,} to {job['step']:,}.", WAITS
    return f"Yes: it is at step {job['step']:,}.", GOOD


def _pace(job: Job) -> str:
    """Against its own best; "" where nothing is known."""
    step_s, best_s = job["step_s"], job["best_step_s"]
    if step_s is None:
        return ""
    more = [f"{step_s:.3g} s a step"]
    if best_s:
        slower = f"{best_s / step_s:.0%} of the pace of its own best, {best_s:.3g} s"
        more.append(slower if step_s > best_s else "as fast as ever")
    if job["tokens_per_s"] is not None:
        more.append(f"{job['tokens_per_s']:,.0f} tokens/s")
    if job.get("mfu") is not None:
        more.append(f"MFU {job['mfu']:.1%}")
    return ", ".join(more)


def _stopped(job: Job, incidents: Incidents, why: Mapping[str, Any]) -> Answer:
    """Why it stopped last, and when; what was only told of it is no stop."""
    ask, last = "Why did it last stop?", status.last_of(incidents)
    if job["phase"] not in FINISHED and (state := state_of(job)) != job["phase"]:
        return Answer(ask, f"It {state}, and nothing tells why.", BAD)
    if last is None or not last["faults"]:
        return Answer(ask, "It has not stopped.")
    text = last.get("latest", last["summary"])
    over = last["recovered_s"] is not None or not last["open"]
    tone = PLAIN if over else BAD
    began = (line["at"] for line in why["lines"] if line["incident"] == last["number"])
    at = next((_when(each, last.get("stalled_s", 0.0)) for each in began), "")
    return Answer(ask, f"{at}{text}{status.still(last, job)}", tone, last["number"])


def _when(found: str, stalled_s: float) -> str:
    """A standstill is since its last step or collective, not since it was found."""
    if not stalled_s:
        return f"at {clock(found)} UTC: "
    return f"since {clock_before(found, stalled_s)} UTC, found at {clock(found)}: "


def todo(job: Job, why: Mapping[str, Any]) -> str:
    """What to do next, as `why` says it, but for where to look: that is here."""
    if why["fix"] and not why["fix"].startswith("How it is now: "):
        return str(why["fix"])
    if job["phase"] in FINISHED:
        return "Nothing: it is over."
    if state_of(job) != job["phase"]:
        saved = "" if job["stored_step"] is None else ", with --begin-from to go on where it saved"
        return f"Start it again{saved}."
    calm = job["phase"] == "Running" and job["incident"] is None
    return "Nothing has to be done." if calm else "Nothing has to be done: Holdfast is at it."
