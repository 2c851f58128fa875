"""Why a job or a node is as it is, told from the state and the journal's entries. Pure.

Used by the routes `story` and `why`, and by the command line where no driver runs.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from holdfast.driver.adapters.rest.views import View, node_state
from holdfast.driver.core.model import Incident, Job, Node, State
from holdfast.driver.ports import Entry


class Line(View):
    """One thing that happened or was decided."""

    sequence: int
    at: str
    """Time of day in UTC, for people."""
    text: str
    verdict: str = ""
    """What follows from it, where something does."""
    incident: int | None = None


class Story(View):
    """All decisions about a job, each with its reason, in order."""

    job: str
    lines: list[Line]


class Why(View):
    """The answer to `why`: a headline, what led there, and what to type next."""

    subject: str
    headline: str
    lines: list[Line]
    exception: str = ""
    """The user's own, whole and first, where that was it."""
    fix: str = ""


def story_of(job: str, entries: Iterable[Entry]) -> Story:
    return Story(job=job, lines=_lines(entries))


def why_job(state: State, job: Job, entries: Sequence[Entry]) -> Why:
    """From the last incident on; all of it where there was none."""
    hit = [incident for incident in state.incidents.values() if job.name in incident.jobs]
    last = max(hit, key=lambda incident: incident.id, default=None)
    told = [entry for entry in entries if last is None or entry.sequence >= last.opened]
    failure = job.failure
    return Why(
        subject=job.name,
        headline=_job_headline(job, _when(job.since_s, entries)),
        lines=_lines(told, [last] if last else []),
        exception=failure.traceback if failure else "",
        fix=_job_fix(job),
    )


def why_node(state: State, node: Node, entries: Sequence[Entry]) -> Why:
    """From the incident that the node is in; else its newest entries."""
    incident = state.incidents.get(node.incident or 0) or _last_about(state, node.name)
    told = entries
    if incident is not None:
        told = [entry for entry in entries if entry.sequence >= incident.opened]
    return Why(
        subject=node.name,
        headline=_node_headline(node, _when(node.evicted_s, entries)),
        lines=_lines(told[-NEWEST:], [incident] if incident else []),
        fix=f'To use it again: holdfast nodes restore {node.name} --reason "…"'
        if node.quarantined
        else "",
    )


NEWEST = 40
"""Lines about a node that a reader takes in; the whole is in the journal."""


def _lines(entries: Iterable[Entry], incidents: Sequence[Incident] = ()) -> list[Line]:
    """Evidence first where its incident was opened, then what was decided."""
    lines: list[Line] = []
    told: set[str] = set()
    opened = {incident.opened: incident for incident in incidents}
    for entry in entries:
        at = entry.at
        for evidence in opened[entry.sequence].evidence if entry.sequence in opened else ():
            text = f"{evidence.source}: {evidence.text}"
            if text in told:
                continue
            told.add(text)
            lines.append(Line(sequence=entry.sequence, at=at, text=text, incident=entry.incident))
        if entry.why and not (lines and lines[-1].text == entry.why):
            lines.append(
                Line(sequence=entry.sequence, at=at, text=entry.why, incident=entry.incident)
            )
    return lines


def _job_headline(job: Job, since: str) -> str:
    state = f"{job.name} is {job.phase.value}{since}"
    reason = job.parked or job.waiting or (job.failure.reason if job.failure else "")
    return f"{state}: {reason}" if reason else state


def _job_fix(job: Job) -> str:
    if job.parked:
        return f"To end it: holdfast stop {job.name}"
    if job.phase.value == "Suspended":
        return f"To go on: holdfast resume {job.name}"
    return ""


def _node_headline(node: Node, since: str) -> str:
    state = node_state(node)
    if state == "quarantined":
        incident = f" (incident {node.incident})" if node.incident is not None else ""
        return f"{node.name} is quarantined{since}{incident}"
    words = {
        "gone": "is gone",
        "held": f"works for {node.job}",
        "free": "is free",
        "unknown": "is there, but its executor is not connected",
    }
    return f"{node.name} {words[state]}"


def _last_about(state: State, node: str) -> Incident | None:
    about = [each for each in state.incidents.values() if node in (each.node, *each.nodes)]
    return max(about, key=lambda incident: incident.id, default=None)


def _when(driver_s: float | None, entries: Sequence[Entry]) -> str:
    """` since 14:02:08`: driver time as time of day, by the entry nearest to it."""
    if driver_s is None or not entries:
        return ""
    nearest = min(entries, key=lambda entry: abs(entry.now - driver_s))
    try:
        wall = datetime.fromisoformat(nearest.at) + timedelta(seconds=driver_s - nearest.now)
    except ValueError:
        return ""
    return f" since {wall:%H:%M:%S}"
