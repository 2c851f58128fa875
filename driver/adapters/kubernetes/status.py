"""The status of a TrainingJob, from what the driver knows of its job. Pure.

Used by `operator`. A projection: nothing is read back from it but when each condition turned.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from holdfast.driver.core.attempt.known_points import newest_stored
from holdfast.driver.core.state.model import Incident, Job, Phase, State
from holdfast.driver.core.state.node import Node
from holdfast.driver.people import job_lives
from holdfast.driver.people.how_far import furthest
from holdfast.driver.people.mfu import mfu
from holdfast.driver.watch import JobFigures
from holdfast.protocol.faults import Kind

Json = Mapping[str, Any]
Status = dict[str, Any]

RECOVERING = frozenset(
    {Phase.SUSPENDING, Phase.DIAGNOSING, Phase.REPLACING, Phase.RESTORING, Phase.STARTING}
)
MAX_MESSAGE_CHARACTERS = 4_096
"""Of a condition; its schema allows 32,768, and a traceback is whole in the journal."""

LIVE = ("step", "storedStep", "loss", "tokensPerSecond", "mfu", "stepSeconds")
"""What changes with every step: written now and then, unlike the rest."""


class Said(NamedTuple):
    """One condition before it has its times."""

    type: str
    true: bool
    reason: str
    message: str


class Verdict(NamedTuple):
    """What is said of an object of which there is no job."""

    phase: str
    reason: str


REFUSED = Verdict("Refused", "Invalid")
WAITING = Verdict("Pending", "NotNow")


def status_of(
    job: Job,
    state: State,
    *,
    live: JobFigures | None,
    pods_ready: int,
    hindrance: str,
    changed: str,
    hindered: str,
    before: Json,
    generation: int,
    at: str,
) -> Status:
    """The whole status. `before`: what the object has now; `at`: now, RFC 3339.

    `hindrance`: what keeps a pod from running; `changed`: what of the spec is not followed;
    `hindered`: why what it wants is not done.
    """
    incident = _latest(job, state)
    ready = 0 if job.finished else pods_ready  # those that are left only end
    return {
        "observedGeneration": generation,
        "phase": job.phase.value,
        "message": _joined(hindered, _message(job, hindrance)),
        "nodes": list(job.nodes),
        "standbys": list(job.standbys),
        "ready": f"{ready}/{job.plan.nodes + job.plan.standbys}",
        "attempt": job.attempt,
        "restarts": sum(1 for fact in job.facts if fact.payer is not None),
        "incident": _incident(incident),
        "lastRecoverySeconds": _recovery_s(incident),
        **_live(job, live),
        "conditions": conditions(
            _said(job, state, hindrance, changed, hindered), before, generation=generation, at=at
        ),
    }


def refused(why: str, before: Json, *, verdict: Verdict, generation: int, at: str) -> Status:
    """The status of an object of which no job can be made, or not yet."""
    said = [Said("Accepted", False, verdict.reason, why)]
    return {
        "observedGeneration": generation,
        "phase": verdict.phase,
        "message": why[:MAX_MESSAGE_CHARACTERS],
        "conditions": conditions(said, before, generation=generation, at=at),
    }


def conditions(
    said: Sequence[Said], before: Json, *, generation: int, at: str
) -> list[dict[str, Any]]:
    """As `metav1.Condition`s. One that says what it said before keeps the time it turned."""
    old = {each["type"]: each for each in before.get("conditions", ())}
    return [_condition(each, old.get(each.type, {}), generation, at) for each in said]


def ended(status: Json) -> bool:
    """Whether the object's job is over for good: it is never started again."""
    return any(_ends(status))


def ended_at(status: Json) -> datetime | None:
    """Since when the object's job is over; None while it is not."""
    times = (datetime.fromisoformat(each["lastTransitionTime"]) for each in _ends(status))
    return min(times, default=None)


def _ends(status: Json) -> Iterator[Json]:
    """The conditions that say that the job is over."""
    for each in status.get("conditions", ()):
        if each["type"] in ("Succeeded", "Failed") and each["status"] == "True":
            yield each


def urgent(status: Json) -> Status:
    """What has to be written at once when it changes; of "ready", whether all are."""
    ready, _, wanted = str(status.get("ready", "")).partition("/")
    told = {key: value for key, value in status.items() if key not in LIVE}
    return told | {"ready": ready == wanted}


def _condition(said: Said, old: Json, generation: int, at: str) -> dict[str, Any]:
    status = "True" if said.true else "False"
    turned = at if old.get("status") != status else old["lastTransitionTime"]
    return {
        "type": said.type,
        "status": status,
        "observedGeneration": generation,
        "lastTransitionTime": turned,
        "reason": said.reason,
        "message": said.message[:MAX_MESSAGE_CHARACTERS],
    }


def _said(job: Job, state: State, hindrance: str, changed: str, hindered: str) -> list[Said]:
    phase, failure = job.phase.value, str(job.failure or "")
    over = job.phase in (Phase.FAILED, Phase.STOPPED)
    allocated = bool(job.places) and all(_given(state, place) for place in job.places)
    recovering = job.phase in RECOVERING and job.attempt > 0 and job.ends is None
    accepted = Said("Accepted", True, "Accepted", "the spec is good")
    if changed or hindered:
        accepted = Said("Accepted", False, "Changed" if changed else "NotNow", changed or hindered)
    return [
        accepted,
        Said("Allocated", allocated, phase, _message(job, hindrance)),
        Said("Running", job.phase is Phase.RUNNING, phase, job.why),
        Said("Recovering", recovering, phase, job.why if recovering else ""),
        Said("Suspended", job.phase is Phase.SUSPENDED, phase, ""),
        Said("Succeeded", job.phase is Phase.SUCCEEDED, phase, ""),
        Said("Failed", over, phase, failure or job.why if over else ""),
        *_shared(job, state),
    ]


def _shared(job: Job, state: State) -> list[Said]:
    """Whether its nodes have one store, once anybody found that they do not."""
    kinds = (Kind.STORE_NOT_SHARED, Kind.STORE_SHARED)
    told = [each for each in state.incidents.values() if each.kind in kinds]
    mine = [each for each in told if job.name in each.jobs and each.found_s >= job.submitted_s]
    last = max(mine, key=lambda incident: incident.id, default=None)
    if last is None:
        return []
    shared = last.kind is Kind.STORE_SHARED
    reason = "SeenByAll" if shared else "NotSeenByAll"
    return [Said("StoreShared", shared, reason, last.summary)]


def given_anew(before: State, after: State) -> set[str]:
    """Jobs to which the cluster gave a node in between: it need not be a change of the job."""
    if before.nodes is after.nodes:
        return set()
    return {
        node.job
        for name, node in after.nodes.items()
        if node.job is not None and node.allocated and not _was_given(before.nodes.get(name))
    }


def _was_given(node: Node | None) -> bool:
    return node is not None and node.allocated


def _given(state: State, place: str) -> bool:
    """Whether the place has a node, and the cluster gave it to the job: its pod is bound there."""
    return bool(place) and state.nodes[place].allocated


def _message(job: Job, hindrance: str) -> str:
    return _joined(job.parked or job.waiting or job.why, hindrance)


def _joined(*parts: str) -> str:
    return "; ".join(filter(None, parts))[:MAX_MESSAGE_CHARACTERS]


def _latest(job: Job, state: State) -> Incident | None:
    """Its open incident, else the newest that hit it."""
    if job.incident is not None and job.incident in state.incidents:
        return state.incidents[job.incident]
    return next(reversed(job_lives.incidents_of(state, job.name)), None)


def _incident(incident: Incident | None) -> dict[str, Any] | None:
    if incident is None:
        return None
    return {
        "number": incident.id,
        "kind": incident.kind.value,
        "summary": incident.summary[:MAX_MESSAGE_CHARACTERS],
        "open": incident.open,
        "evicted": list(incident.evicted),
    }


def _recovery_s(incident: Incident | None) -> str | None:
    """Seconds from the end of progress to the first new step; decimals are strings in an API."""
    if incident is None or incident.resumed_s is None:
        return None
    return f"{incident.resumed_s - incident.found_s + incident.stalled_s:.2f}"


def _live(job: Job, live: JobFigures | None) -> dict[str, Any]:
    step = furthest(job, live)
    newest = newest_stored(job)
    stored = newest.step if newest else None
    if live is None:
        return {"step": step, "storedStep": stored}
    figures = {
        "loss": live.loss,
        "tokensPerSecond": live.tokens_per_s,
        "mfu": mfu(job, live)[0],
        "stepSeconds": live.step_s,
    }
    return {
        "step": step,
        "storedStep": stored,
        **{key: f"{v:.6g}" for key, v in figures.items() if v is not None},
    }
