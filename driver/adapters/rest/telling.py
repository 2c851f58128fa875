"""Why a job or a node is as it is: a headline, its story, and what to type next.

Used by the routes `story` and `why`, and by the command line where no driver runs: both say the
same. The story's lines are made by `driver.people.story`; nothing is decided here.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from holdfast.driver.adapters.rest import against
from holdfast.driver.adapters.rest.hypotheses import HypothesisView, hypotheses_of
from holdfast.driver.adapters.rest.view import View
from holdfast.driver.adapters.rest.views import node_state, reasons, tested_for, verdict_of
from holdfast.driver.core.events import (
    DiagnosticEnded,
    DriverStarted,
    Event,
    ExecutorConnected,
    ExecutorDisconnected,
    NodeAllocated,
    NodeAppeared,
    NodeMaintainRequested,
    NodeReleased,
    NodeRestoreRequested,
    RanksExited,
)
from holdfast.driver.core.evidence import book
from holdfast.driver.core.faults import incidents
from holdfast.driver.core.state.fact import OfVersion
from holdfast.driver.core.state.model import Incident, Job, Phase, State
from holdfast.driver.core.state.node import Lent, Node, Quarantined, Source, Suspect
from holdfast.driver.core.testing.off_the_job import due_s
from holdfast.driver.people import job_lives
from holdfast.driver.people.admission import steps_found
from holdfast.driver.people.node_words import STATES
from holdfast.driver.people.story import Line, lines_of
from holdfast.driver.ports import Entry, Journal
from holdfast.protocol import origins
from holdfast.protocol.counts import plural
from holdfast.protocol.faults import Kind


class LineView(View):
    """One thing that was seen or decided."""

    sequence: int
    """Of the journal entry."""
    at: str
    """Time of day in UTC, for people."""
    text: str
    seen: bool
    """Somebody saw it; else it was decided."""
    source: str
    """Who saw it; empty where the driver itself did."""
    verdict: str
    """What follows from it, where something does."""
    cause: int | None
    """The entry that led to it; null where the outside did."""
    incident: int | None


class Story(View):
    """All decisions about a job, each with its reason, in order."""

    job: str
    earlier: bool
    """Another job had its name before."""
    lines: list[LineView]


class Why(View):
    """The answer to `why`: a headline, what led there, and what to type next."""

    subject: str
    headline: str
    """State and reason, in one line."""
    details: list[str]
    """What belongs to the reason, such as why each node is not to be had."""
    lines: list[LineView]
    exception: str
    """The user's own traceback, whole, where that was it; to be shown first."""
    hypotheses: list[HypothesisView]
    """What may have been behind the last fault of its last incident."""
    origin: str
    """Where the cause of that incident comes from, how sure that is, and by what; else empty."""
    mind: str
    """What would change the driver's mind about a node that is out, or doubted; else empty."""
    fix: str
    """What to type next."""


PAGE_ENTRIES = 1_000

MOST_INCIDENTS = 5
"""Of a node that are told, the newest."""

NEWEST = 40
"""Lines about what had no fault that a reader takes in; the whole is in the journal."""


def story_of(
    journal: Journal,
    state: State,
    job: Job,
    *,
    after: int = 0,
    whole: bool = False,
    earlier: bool = False,
) -> Story:
    """`whole`: with every line that a reader can do without; `earlier`: with the stories of the
    jobs that had its name before.
    """
    begun = 0 if earlier else job_lives.before(job)
    entries = entries_of(journal, job=job.name, after=max(after, begun), telling=not whole)
    first = journal.entries(job=job.name, limit=1)
    return Story(
        job=job.name,
        earlier=any(entry.sequence < job.number for entry in first),
        lines=_views(lines_of(entries, state.incidents.values(), whole=whole, subjects={job.name})),
    )


def why_job(journal: Journal, state: State, job: Job, *, now: float) -> Why:
    """From the last fault on, or from where its store went down, if it still is; where there was
    none, from the last report; else all of it.
    """
    entries = entries_of(journal, job=job.name, after=job_lives.before(job), telling=True)
    hit = job_lives.incidents_of(state, job.name)
    faults = [incident for incident in hit if incident.faults]
    last = max(faults or hit, key=lambda incident: incident.id, default=None)
    down = incidents.standing(hit, job).get(Kind.STORE_FAILED)
    headline, *details = _job_headline(job, _when(job.since_s, entries))
    if job.parked and job.backoff and (again := _when(job.backoff.until_s, entries)):
        details.append(f"the driver looks at it again at {again}; what runs goes on meanwhile")
    if job.unsure_s is not None and (unsure := _when(job.unsure_s, entries)):
        details.append(f"it waits to learn which checkpoints its store has, since {unsure}")
    details += _said_of_versions(job, entries) + against.of_job(state, job, now)
    if len(faults) > 1:
        before = plural(len(faults) - 1, "incident")
        details.append(f"{before} before that: holdfast story {job.name}")
    return Why(
        subject=job.name,
        headline=headline,
        details=details,
        lines=_views(_from(lines_of(entries, hit, subjects={job.name}), down or last)),
        exception=_exception(job, entries, last),
        hypotheses=hypotheses_of(last.table) if last else [],
        origin=_origin(last),
        mind=against.mind_of_job(job),
        fix=_job_fix(state, job, last),
    )


def _origin(incident: Incident | None) -> str:
    """`likely user code: the script raised an exception`; "" where there is no fault."""
    if incident is None or not incident.faults:
        return ""
    verdict = verdict_of(incident)
    return f"{origins.told(verdict.origin or '', verdict.sure)}: {verdict.why}"


def _said_of_versions(job: Job, entries: Sequence[Entry]) -> list[str]:
    """What people know of what it runs."""
    return [
        f"{fact.by} {against.SAYS[fact.bearing]} version {fact.subject.number}"
        f"{_at(_when(fact.at_s, entries))}: {fact.what}"
        for fact in job.facts
        if fact.by and isinstance(fact.subject, OfVersion)
    ]


def why_node(
    journal: Journal, state: State, node: Node, *, now: float, absent: str = "", over: str = ""
) -> Why:
    """From the incident that the node was in, with what was seen and tested elsewhere for it.
    `absent`: why the cluster does not have it; `over`: what it is where nothing runs any more."""
    incident = state.incidents.get(_quarantined_in(node) or 0) or _last_about(state, node.name)
    entries = entries_of(journal, node=node.name)
    if incident is None:
        lines = list(lines_of(entries, subjects={node.name}))[-NEWEST:]
    else:
        subjects = {node.name, *incident.jobs}
        entries_of_all = _with_jobs(journal, entries, incident)
        lines = _from(lines_of(entries_of_all, [incident], subjects=subjects), incident)
    return Why(
        subject=node.name,
        headline=f"{node.name} {over}" if over else _node_headline(state, node, entries, absent),
        details=[
            *_since(node, entries),
            *_strikes(state, node, entries, now),
            *against.held(state, node, now, lambda at_s: _strike(state, node, at_s)),
            *_incidents_of(state, node, entries),
        ],
        lines=_views(lines),
        exception="",
        hypotheses=hypotheses_of(incident.table) if incident else [],
        origin=_origin(incident),
        mind=against.mind(state, node, now, _when(due_s(node), entries)),
        fix=_node_fix(node),
    )


_BEGINS: Mapping[str, tuple[type[Event], ...]] = {
    "held": (NodeAllocated,),
    "free": (
        *(NodeReleased, NodeAppeared, NodeRestoreRequested),
        *(ExecutorConnected, DiagnosticEnded),  # of its exam
    ),
    "maintenance": (NodeMaintainRequested,),
    "unknown": (ExecutorDisconnected, DriverStarted),
}
"""What a state begins with of which the node itself has no time."""


def _since(node: Node, entries: Sequence[Entry]) -> list[str]:
    """Since when it is so; the headline has that of a quarantine."""
    state = node_state(node)
    begins = _BEGINS.get(state, ())
    began = [entry.now for entry in entries if isinstance(entry.event, begins)]
    at = _when(node.gone_s if state == "gone" else max(began, default=None), entries)
    return [f"since {at}"] if at else []


def _strikes(state: State, node: Node, entries: Sequence[Entry], now: float) -> list[str]:
    """Faults that were put down to it lately, in a line."""
    strikes = [fact.at_s for fact in book.blamed(node.record.facts, now - book.HALF_LIFE_S)]
    told = [_strike(state, node, at_s) or _when(at_s, entries) for at_s in strikes]
    return (
        [f"{_strikes_told(len(strikes))}: {'; '.join(filter(None, dict.fromkeys(told)))}"]
        if strikes
        else []
    )


def _strikes_told(count: int) -> str:
    days = book.HALF_LIFE_S / book.DAY_S
    return f"{plural(count, 'fault')} put down to it within {days:.0f} days"


def _strike(state: State, node: Node, at_s: float) -> str:
    """The fault of the newest incident that was open then and names the node; of one of which that
    is not known, that it followed what another of its nodes had."""
    known = sorted(state.incidents.values(), key=lambda each: each.id, reverse=True)
    about = (each for each in known if node.name in (each.node, *each.nodes))
    return next((_fault_then(each, node, at_s) for each in about if each.found_s <= at_s), "")


def _fault_then(incident: Incident, node: Node, at_s: float) -> str:
    """An incident keeps the words of its cause, and of the last fault that joined it."""
    if incident.latest and incident.again_s == at_s:
        return incident.latest
    if incident.node in (None, node.name):
        return incident.summary
    return f"what followed in incident {incident.id} ({incident.summary})"


def _incidents_of(state: State, node: Node, entries: Sequence[Entry]) -> list[str]:
    """The incidents that it was in, newest last, each in a line."""
    told = [
        f"incident {each.id}{_at(_when(each.found_s, entries))}: {_came_to(each)}"
        for each in sorted(state.incidents.values(), key=lambda each: each.id)
        if node.name in (each.node, *each.nodes, *each.evicted)
    ]
    more = len(told) - MOST_INCIDENTS
    before = [f"{more} more before these"] if more > 0 else []
    return [*before, *told[-MOST_INCIDENTS:]] if told else [_in_none(state, node)]


def _in_none(state: State, node: Node) -> str:
    """Of those that the state has; the oldest are let go."""
    if (number := _quarantined_in(node)) is not None:
        return f"incident {number} is kept no longer"
    if state.incident_count > len(state.incidents):
        return "it is in none of the incidents that are kept"
    return "it was in no incident"


def _came_to(incident: Incident) -> str:
    if incident.summary in incident.outcome:
        return incident.outcome
    outcome = "not over" if incident.open else incident.outcome
    return f"{incident.summary} ({outcome})" if outcome else incident.summary


def _at(at: str) -> str:
    return f" at {at}" if at else ""


def _node_fix(node: Node) -> str:
    if node.quarantined or node.notice:
        return f'To use it again: holdfast nodes restore {node.name} --reason "…"'
    if node.job is not None:
        return f"How its job is: holdfast status {node.job}"
    return "All nodes: holdfast nodes"


def entries_of(
    journal: Journal,
    *,
    job: str | None = None,
    node: str | None = None,
    after: int = 0,
    telling: bool = False,
) -> list[Entry]:
    """Every entry that belongs to it, read page by page; `telling`: of which a story has any."""
    entries: list[Entry] = []
    while page := journal.entries(
        job=job, node=node, after=after, telling=telling, limit=PAGE_ENTRIES
    ):
        entries += page
        after = page[-1].sequence
    return entries


def _with_jobs(journal: Journal, entries: list[Entry], incident: Incident) -> list[Entry]:
    """A node's entries, and those of the jobs that its incident hit, until that was over."""
    found = {entry.sequence: entry for entry in entries}
    for job in incident.jobs:
        for entry in entries_of(journal, job=job, telling=True):
            if incident.closed_s is None or entry.now <= incident.closed_s:
                found.setdefault(entry.sequence, entry)
    return [found[sequence] for sequence in sorted(found)]


def _from(lines: Sequence[Line], incident: Incident | None) -> list[Line]:
    """The lines since the incident was opened, and those that led to it."""
    if incident is None:
        return list(lines)[-NEWEST:]
    return [
        line for line in lines if line.sequence >= incident.opened or line.incident == incident.id
    ]


def _views(lines: Sequence[Line]) -> list[LineView]:
    return [LineView(**msgspec.structs.asdict(line)) for line in lines]


def _exception(job: Job, entries: Sequence[Entry], last: Incident | None) -> str:
    """The user's own traceback, if it is why the job failed or last had to be restarted."""
    if job.failure is not None:
        return job.failure.traceback
    if last is None or last.kind is not Kind.USER_EXCEPTION:
        return ""
    exits = [entry.event for entry in entries if isinstance(entry.event, RanksExited)]
    errors = [status.error for event in exits for status in event.exits]
    own = [error.traceback for error in errors if error is not None and not error.in_collective]
    return next(filter(None, reversed(own)), "")


def _job_headline(job: Job, since: str) -> list[str]:
    """State and reason; of a job that waits, then what belongs to it, each for itself."""
    waits = [] if job.parked else job.waiting.split("; ")
    reason = (
        job.parked or (waits[0] if waits else "") or (job.failure.reason if job.failure else "")
    )
    state = f"{job.name} {_state(job.phase, since)}"
    return [f"{state}: {reason}" if reason else state, *waits[1:]]


_ENDS = {Phase.SUCCEEDED: "succeeded", Phase.FAILED: "failed", Phase.STOPPED: "was stopped"}


def _state(phase: Phase, at: str) -> str:
    """`succeeded at 14:02:08`, `has been Running since 14:02:08`; `at` may be unknown."""
    if ended := _ENDS.get(phase):
        return f"{ended} at {at}" if at else ended
    return f"has been {phase.value} since {at}" if at else f"is {phase.value}"


def _job_fix(state: State, job: Job, last: Incident | None) -> str:
    if job.parked:
        return f"To end it: holdfast stop {job.name}"
    if job.unsure_s is not None:
        return f"To begin elsewhere: holdfast resume {job.name} {_ways(state, job)}"
    if job.phase is Phase.SUSPENDED:
        return f"To go on: holdfast resume {job.name}"
    if job.phase is Phase.FAILED and last is not None and last.rank is not None:
        if last.kind is Kind.START_FAILED:  # no process, no logs
            return "None of its ranks has run: mend that, and start it again."
        return f"What the rank wrote: holdfast logs {job.name} --rank {last.rank} --stderr"
    return "" if job.finished else f"How it is now: holdfast status {job.name} --watch"


def _ways(state: State, job: Job) -> str:
    """How a person ends the waiting for what its store has, by what is found now."""
    newest = next(iter(steps_found(state, job)), None)
    return "--from-start" if not newest else f"--from-step {newest} (or --from-start)"


def _node_headline(state: State, node: Node, entries: Sequence[Entry], absent: str) -> str:
    out = node.quarantine
    if out is not None:
        since, again = _when(node.record.evicted_s, entries), _when(due_s(node), entries)
        incident = f" (incident {out.incident})" if out.incident is not None else ""
        quarantined = f"has been quarantined since {since}" if since else "is quarantined"
        return f"{node.name} {quarantined}{incident}: {out.why}; {_prospect(node, out, again)}"
    if node.stranger:
        return f"{node.name} is connected, but the cluster does not know it"
    words = {
        "gone": "is gone",
        "held": f"works for {node.job}",
        "in test": f"belongs to {node.job}: {tested_for(state, node)}",
        "maintenance": "is kept free",
        "suspect": f"is tested before it is used again: {_suspicion(node)}",
        "free": "is free",
        "closed": f"gets no new work: {_cordon(node)}",
        "unknown": "is there, and no executor of it is connected",
    }
    why = absent or (node.notice.why if node.notice else "")
    word = node_state(node)
    return f"{node.name} {words.get(word) or _barred(node, word)}" + (f": {why}" if why else "")


def _barred(node: Node, word: str) -> str:
    """What a state is told as that has no words of its own here: its own, and the reason for it."""
    return f"is {word}: {next(each for each in reasons(node) if STATES.get(each.bar) == word)}"


def _suspicion(node: Node) -> str:
    return node.trust.why if isinstance(node.trust, Suspect) else ""


def _cordon(node: Node) -> str:
    return node.against[Source.CORDON].why if Source.CORDON in node.against else ""


def _quarantined_in(node: Node) -> int | None:
    return node.quarantine.incident if node.quarantine else None


def _prospect(node: Node, out: Quarantined, again: str) -> str:
    """Whether a quarantined node comes back by itself, and when."""
    if isinstance(node.holding, Lent):
        return "it is tested now"
    if out.by_person:
        return "only a person restores it"
    if out.exam_s is None:
        return "it is not known with what a job would use it, so that nothing tests it"
    return f"it is tested {f'at {again}' if again else 'later'}, if that can be done then"


def _last_about(state: State, node: str) -> Incident | None:
    """The last fault, or where there was none the last report: one may come after the other."""
    about = [each for each in state.incidents.values() if node in (each.node, *each.nodes)]
    faults = [incident for incident in about if incident.faults]
    return max(faults or about, key=lambda incident: incident.id, default=None)


def _when(driver_s: float | None, entries: Sequence[Entry]) -> str:
    """`14:02:08`: driver time as time of day, by the entry nearest to it; "" where unknown."""
    if driver_s is None or not entries:
        return ""
    nearest = min(entries, key=lambda entry: abs(entry.now - driver_s))
    try:
        wall = datetime.fromisoformat(nearest.at) + timedelta(seconds=driver_s - nearest.now)
    except ValueError:
        return ""
    return f"{wall:%H:%M:%S}"
