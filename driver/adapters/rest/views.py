"""What people are shown of the state: models of the answers, made by pure functions.

Used by the routers, and by the command line where no driver runs. Names are in snake case with
their units; only the job spec is in camel case, for it is the user's own document.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field

from holdfast.driver.adapters.rest.hypotheses import HypothesisView, hypotheses_of
from holdfast.driver.adapters.rest.points import (
    LayoutView,
    RestorePointView,
    ago,
    layout_view,
    restore_points,
)
from holdfast.driver.adapters.rest.view import View
from holdfast.driver.core.attempt.known_points import newest_stored
from holdfast.driver.core.attempt.tally import exits_of
from holdfast.driver.core.evidence import book
from holdfast.driver.core.evidence.signs import Verdict, judge
from holdfast.driver.core.faults.incidents import signs_of
from holdfast.driver.core.faults.root_cause import root
from holdfast.driver.core.state.fit import Reason, Use, fit
from holdfast.driver.core.state.model import Incident, Job, Purpose, State
from holdfast.driver.core.state.node import Exited, Lent, Node
from holdfast.driver.core.testing.off_the_job import due_s
from holdfast.driver.people.how_far import how_far
from holdfast.driver.people.mfu import mfu
from holdfast.driver.people.node_words import STATES, WORDED
from holdfast.driver.people.story import timeline
from holdfast.driver.watch import JobFigures
from holdfast.protocol.collectives import told
from holdfast.protocol.faults import Blame
from holdfast.protocol.messages import Observed

Pids = Mapping[str, Mapping[int, int]]
"""Of ranks, by node and rank."""
NO_PIDS: Pids = {}


class Place(View):
    """A node of a job and the ranks on it."""

    node: str
    """Name of the node; empty while there is none for these ranks."""
    ranks: list[int]
    pids: dict[int, int]
    """By rank, as its node counts them; of those that are heard of."""
    connected: bool
    """Whether its executor has a connection to the driver."""


class BudgetView(View):
    """Recoveries of one kind."""

    used: int
    """Within the window."""
    allowed: int
    window_s: float


class FailureView(View):
    """Why a job was given up."""

    traceback: str
    """The user's own exception, whole; empty where there was none."""
    reason: str


class ExitView(View):
    """How the rank that explains the others' ends ended."""

    rank: int
    node: str
    code: int | None
    signal: int | None
    message: str
    more: int
    """How many ranks of that attempt had ended beside it."""


class JobView(View):
    """A job as it is now."""

    name: str
    labels: dict[str, str]
    phase: str
    wanted: str
    """What people want of it: run, suspend, stop or delete."""
    since_s: float
    """Seconds in this phase."""
    age_s: float
    """Seconds since it was submitted; of a finished job: until it ended."""
    why: str
    """The last decision, in a sentence."""
    waiting: str
    """What it waits for, if it does."""
    unsure_s: float | None
    """Seconds since it waits to know what its store has; null where it does not."""
    parked: str
    ranks: int
    places: list[Place]
    standbys: list[str]
    attempt: int
    """How often its ranks were started since it was submitted."""
    version: int
    """Of what it is to run: the number of its spec, which is 1 as it was submitted."""
    layout: LayoutView
    """Of its newest attempt while it runs; else what the next one has so far."""
    restore_points: list[RestorePointView]
    """What its ranks could start from, the newest first: what its store is known to have, and what
    is tainted; until ranks run also what its nodes have in memory."""
    step: int | None
    """Highest step that all ranks are known to have completed."""
    again_from: int | None
    """While steps are done again after a recovery: the one that its ranks went back to; else null.
    """
    stored_step: int | None
    """Of the newest whole checkpoint that its store is known to have; null where there is none."""
    stored_s: float | None
    """Seconds since that was written; null where it was only found, or there is none."""
    unsaved_step: int | None
    """Of a job that is over: the last step in its nodes' memory, where it did not reach the store;
    else null."""
    step_relative: bool
    """Steps are those of an optimizer, counted from the script's last start: nobody said which step
    that was."""
    step_s: float | None
    """Median time of a step, in seconds."""
    best_step_s: float | None
    """The least that this median has been, over all attempts; an earlier driver's within 5 %."""
    loss: float | None
    tokens_per_s: float | None
    mfu: float | None
    """Model FLOPs utilization, a part of 1; null where it is not known."""
    mfu_unknown: str
    """Why it is not known; empty where it is."""
    incident: int | None
    """The open one."""
    restarts: dict[str, BudgetView]
    """By whose fault: `infrastructure` and `user`."""
    failure: FailureView | None
    exit: ExitView | None
    rendezvous: str
    """Redis where its ranks meet; empty: a TCPStore on its first node."""
    communication: dict[str, str]
    """Environment by which NCCL and gloo are told what to do: by its spec, and by its own `env`. A
    node's own environment may set otherwise what `env` does not."""
    store_url: str
    """Where its checkpoints are: a folder of this job alone below the `storeUrl` of its spec."""
    spec: dict[str, Any]
    """As it was submitted, with its defaults."""


class JobList(View):
    items: list[JobView]
    next: str | None = Field(serialization_alias="continue")
    """Token of the next page; null on the last one."""


class NodeView(View):
    """A node as the driver knows it."""

    name: str
    state: str
    """free, held, in test (a job's own, being tested), maintenance (kept free, for somebody gave
    notice), closed (the cluster gives it no new work), quarantined, gone, or unknown: there without
    its executor, where nodes have one before they have a job, or connected under a name that the
    cluster does not have."""
    rack: str
    address: str
    job: str | None
    ranks: list[int]
    standby: bool
    present: bool
    connected: bool
    at_rest: bool
    """Nothing is wanted of it; what its last job left is ended, and stored or given up."""
    reason: str
    """Of the quarantine, of the notice that it is to be free, of the test that it is in, or why it
    is left out for a while."""
    free_by_s: float | None
    """Driver time by which it has to be free; null where it need not, or at leisure."""
    incident: int | None
    on_trial: bool
    """It is quarantined, and being tested: where it passes it is used again."""
    next_trial_s: float | None
    """Driver time of its next tests, at the earliest; null where none comes by itself."""
    strikes: int
    """Faults that were put down to it within 7 days."""
    unreadable: tuple[str, ...] = ()
    """What its daemon cannot read of it now, each with the reason: nothing is known of that."""


class BrakeView(View):
    """Whether nodes are evicted by themselves."""

    on: bool
    """It is on: nobody is evicted but by people, until one of them releases it."""
    why: str
    """Why it was put on, or who released it last; empty where neither has been."""
    since_s: float
    """Driver time of that."""
    dry_run: bool
    """This driver only says what it would evict."""


class NodeList(View):
    items: list[NodeView]


class EvidenceView(View):
    source: str
    text: str


class IncidentView(View):
    """One cause and all that followed."""

    number: int
    kind: str
    blame: str
    origin: str
    """`user`, `framework`, `host`, `gpu`, `network`, `storage`, `external`: where it comes from by
    all that is known; empty where nothing tells."""
    sure: str
    """`sure`, `likely`, `not sure`: how sure that is."""
    origin_why: str
    """By what."""
    summary: str
    latest: str
    """Of the last fault that was put down to it; that of the incident where there was one."""
    jobs: list[str]
    node: str | None
    rank: int | None
    evicted: list[str]
    rung: int
    """Highest rung of the ladder that was needed; 0 where nothing was done."""
    faults: int
    """That were put down to this cause; 0 where it was only reported."""
    open: bool
    outcome: str
    found_s: float
    """Driver time."""
    stalled_s: float
    """How long it had lasted when it was found: of a standstill, since the last step or collective
    was done."""
    stages_s: dict[str, float]
    """Seconds that each stage of its last recovery took, in order."""
    recovered_s: float | None
    """Seconds from found to the first step never reached before, or to the next fault; null while
    there is neither."""
    overtaken: bool
    """The next fault came before that step, to each of its jobs."""
    down_s: float | None
    """The same, with what had passed before it was found: a standstill, a silence."""
    step: int | None
    """The lowest that all ranks went back to; null where they did not, where nobody sees from where
    a script goes on that saves by itself, or where it hit several jobs."""
    steps_lost: int | None
    """Completed before it and trained again, each counted once, over all jobs; at least so many
    where `step` is null; null where that is not known."""
    evidence: list[EvidenceView]
    hypotheses: list[HypothesisView]
    """What may have been behind its last fault, in the order in which that is tried; none is chosen
    where all are closed, and the ranks are started again as often as the budget allows."""
    stacks: dict[int, str]


class IncidentList(View):
    items: list[IncidentView]


def job_view(
    state: State, job: Job, *, now: float, live: JobFigures | None, pids: Pids = NO_PIDS
) -> JobView:
    """`live`: what the detectors know of its progress, or None where they know nothing; `pids`: of
    its ranks that they have heard of.
    """
    spec = json.loads(job.plan.spec or b"{}")
    ended, exits = job.since_s if job.finished else now, exits_of(state.nodes, job)
    used, unknown = mfu(job, live)
    so_far, stored = how_far(job, live, exits), newest_stored(job)
    return JobView(
        name=job.name,
        labels=spec.get("metadata", {}).get("labels", {}),
        phase=job.phase.value,
        wanted=job.wanted.value,
        since_s=max(0.0, now - job.since_s),
        age_s=max(0.0, ended - job.submitted_s),
        why=job.why,
        waiting=job.waiting,
        unsure_s=ago(job.unsure_s, now),
        parked=job.parked,
        ranks=job.world_size,
        places=_places(state, job, pids),
        standbys=list(job.standbys),
        attempt=job.attempt,
        step=so_far.step,
        again_from=so_far.again_from,
        version=job.version.number,
        layout=layout_view(job),
        restore_points=restore_points(state, job, now),
        stored_step=stored.step if stored else None,
        stored_s=ago(stored.written_s if stored else None, now),
        unsaved_step=job.save.step if job.finished and job.save else None,
        step_relative=so_far.relative,
        step_s=live.step_s if live else None,
        best_step_s=live.best_step_s if live else job.best_step_s,
        loss=live.loss if live else None,
        tokens_per_s=live.tokens_per_s if live else None,
        mfu=used,
        mfu_unknown=unknown,
        incident=job.incident,
        restarts=_restarts(job, now),
        failure=_failure(job),
        exit=_first_failed(job, exits),
        rendezvous=job.plan.task.rendezvous,
        communication=told(job.plan.task.default_env, job.plan.task.env),
        store_url=job.plan.task.store_url,
        spec=spec,
    )


def node_view(state: State, node: Node, seen: Observed | None = None, *, now: float) -> NodeView:
    """`seen`: what its executor reported last."""
    job = state.jobs.get(node.job or "")
    ranks = list(job.layout.ranks_on(node.name)) if job else []
    return NodeView(
        name=node.name,
        state=node_state(node),
        rack=node.rack,
        address=node.address,
        job=node.job,
        ranks=ranks,
        standby=job is not None and node.name in job.standbys,
        present=node.present,
        connected=node.connected,
        at_rest=_at_rest(node, seen),
        reason=_reason(node) or tested_for(state, node),
        free_by_s=node.notice.by_s if node.notice else None,
        incident=node.quarantine.incident if node.quarantine else None,
        on_trial=isinstance(node.holding, Lent),
        next_trial_s=None if isinstance(node.holding, Lent) else due_s(node),
        strikes=len(book.blamed(node.record.facts, now - book.HALF_LIFE_S)),
    )


def _at_rest(node: Node, seen: Observed | None) -> bool:
    if node.job is not None or not node.connected:
        return False
    if not node.told.generation:
        return True
    return seen is not None and seen.quiet and seen.generation == node.told.generation


def _reason(node: Node) -> str:
    """The weightiest thing that somebody said against its use; "" where nobody did."""
    reason = next((each for each in reasons(node) if each.bar in WORDED), None)
    if reason is None:
        return ""
    return f"it is to be free: {reason}" if STATES.get(reason.bar) == "maintenance" else f"{reason}"


_TESTED_FOR: Mapping[Purpose, str] = {
    Purpose.DIAGNOSIS: "{job} is to know whether it is the bad one",
    Purpose.STANDBY: "before it may stand in for a node of {job}",
    Purpose.SUSPICION: "before it is used again",
    Purpose.REQUALIFICATION: "before it is used again",
    Purpose.ASKED: "a person wants to know how it is",
}


def tested_for(state: State, node: Node) -> str:
    """What it is being tested for; "" where it is not."""
    exam = state.exams.get(node.exam or "")
    if exam is None:
        return ""
    if node.name not in exam.suspects:
        return f"it helps to test {', '.join(exam.suspects)}"
    return f"it is tested: {_TESTED_FOR[exam.purpose].format(job=exam.job)}"


def brake_view(state: State, *, dry_run: bool) -> BrakeView:
    brake = state.brake
    return BrakeView(on=brake.on, why=brake.why, since_s=brake.at_s, dry_run=dry_run)


def reasons(node: Node) -> tuple[Reason, ...]:
    """Why it is no place for any job, the weightiest first. What ends by itself is told until the
    driver has noticed that."""
    return fit(Use.PLACE, None, node, -math.inf)


def node_state(node: Node) -> str:
    """One word for a node."""
    words = (STATES[reason.bar] for reason in reasons(node) if reason.bar in STATES)
    word = next(words, "free" if node.connected else "unknown")
    return "in test" if word == "held" and node.exam is not None else word


def verdict_of(incident: Incident) -> Verdict:
    """Where it comes from."""
    held = incident.table.chosen if incident.table is not None else None
    return judge(signs_of(incident), held)


def incident_view(incident: Incident) -> IncidentView:
    resumed = incident.resumed_s
    verdict = verdict_of(incident)
    return IncidentView(
        number=incident.id,
        kind=incident.kind.value,
        blame=incident.blame.value,
        origin=verdict.origin or "",
        sure=verdict.sure.value,
        origin_why=verdict.why,
        summary=incident.summary,
        latest=incident.latest or incident.summary,
        jobs=list(incident.jobs),
        node=incident.node,
        rank=incident.rank,
        evicted=list(incident.evicted),
        rung=incident.rung,
        faults=incident.faults,
        open=incident.open,
        outcome=incident.outcome,
        found_s=incident.found_s,
        stalled_s=incident.stalled_s,
        stages_s=timeline(incident),
        recovered_s=None if resumed is None else resumed - incident.found_s,
        overtaken=incident.overtaken,
        down_s=None if resumed is None else resumed - incident.found_s + incident.stalled_s,
        step=_step_restored(incident),
        steps_lost=incident.steps_lost,
        evidence=[EvidenceView(source=each.source, text=each.text) for each in incident.evidence],
        hypotheses=hypotheses_of(incident.table),
        stacks=incident.stacks,
    )


def _step_restored(incident: Incident) -> int | None:
    backs = [*incident.rollbacks.values()]
    return backs[0].restored if len(backs) == 1 and not backs[0].unseen else None


def _places(state: State, job: Job, pids: Pids) -> list[Place]:
    return [
        _place(state, name, job.layout.ranks_at(place), pids.get(name, {}))
        for place, name in enumerate(job.places)
    ]


def _place(state: State, name: str, ranks: Iterable[int], pids: Mapping[int, int]) -> Place:
    node = state.nodes.get(name)
    connected = node is not None and node.connected
    return Place(node=name, ranks=list(ranks), pids=dict(pids), connected=connected)


def _restarts(job: Job, now: float) -> dict[str, BudgetView]:
    budgets = {Blame.INFRASTRUCTURE: job.plan.infrastructure, Blame.USER: job.plan.user}
    return {
        str(blame): BudgetView(
            used=book.paid(job.facts, blame, now - budget.window_s, earned=False),
            allowed=budget.restarts,
            window_s=budget.window_s,
        )
        for blame, budget in budgets.items()
    }


def _failure(job: Job) -> FailureView | None:
    if job.failure is None:
        return None
    return FailureView(traceback=job.failure.traceback, reason=job.failure.reason)


def _first_failed(job: Job, exits: Sequence[Exited]) -> ExitView | None:
    first = root(exits)
    if first is None:
        return None
    error = first.status.error
    return ExitView(
        rank=first.status.rank,
        node=first.node,
        code=first.status.exit_code,
        signal=first.status.signal,
        message=error.message if error else "",
        more=max(job.ended, len(exits)) - 1,
    )
