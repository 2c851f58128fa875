"""Whether a person's request can be done, before anything is journaled. Pure.

Asked of each request before it is decided on. A refusal names field, value and fix, and changes
nothing: what is admitted is an event like others.
"""

import msgspec

from holdfast.diagnostics.figures import LEAST_NODES
from holdfast.driver.core import events as e
from holdfast.driver.core.attempt import known_points
from holdfast.driver.core.attempt.quiet import quiet_of
from holdfast.driver.core.state.model import Job, Phase, State, Wanted
from holdfast.driver.core.state.node import Quarantined, Source, Trusted
from holdfast.driver.core.testing import asked
from holdfast.driver.core.testing.unknown import good as good_of

DEFECT = "defect"
"""The code of a refusal that is our fault: the same request is refused again until we mend it."""

LONGEST_WORDS = 500
"""Characters of a fact that a person tells."""

SHOWN = 8
"""Steps that a refusal names, the newest first."""


class Refusal(msgspec.Struct, frozen=True):
    """Why a request is refused: a code word for programs, a sentence for people."""

    code: str
    sentence: str
    value: str = ""  # that was sent, where it is not the name of what the request is about

    def __str__(self) -> str:
        return self.sentence


def refuse(state: State, event: e.AnyEvent) -> Refusal | None:
    """The reason why `event` cannot be, or None where it can."""
    if isinstance(event, e.JobSubmitted):
        return _submit(state, event)
    if isinstance(event, e.NodeFactTold | e.JobFactTold) and (why := _no_words(event.words)):
        return Refusal("no-words", why)
    if isinstance(event, e.NodeRequest):
        return _node(state, event)
    if isinstance(event, e.JobFactTold):
        return _version(state, event)
    if isinstance(event, e.DiagnoseRequested):
        return _diagnose(state, event)
    if isinstance(event, e.DiagnoseEndRequested):
        return _diagnosis(state, event)
    if isinstance(event, e.CalibrateRequested):
        return _calibrate(state, event)
    if isinstance(event, e.BrakeRequest):
        return _brake(state, event)
    if isinstance(event, e.JobRequest):
        return _job(state, event)
    return None


def of_defect(event: e.AnyEvent, why: str) -> Refusal:
    """What whoever asked is told where deciding on it met a defect of ours."""
    what = "job" if hasattr(event, "job") else "node" if hasattr(event, "node") else "request"
    name = getattr(event, what, type(event).__name__)
    return Refusal(
        DEFECT,
        f"{what}: {name!r} meets a defect of Holdfast ({why}), and nothing was changed. "
        "Other jobs go on. Please report it with the traceback in the driver's log.",
    )


def _submit(state: State, event: e.JobSubmitted) -> Refusal | None:
    if event.job not in state.jobs:
        return None
    phase = state.jobs[event.job].phase
    return Refusal(
        "duplicate-job",
        f"metadata.name: {event.job!r} is taken by a job that is {phase}. "
        "Choose another name, or delete that job first.",
    )


BEFORE_A_START = (Phase.PENDING, Phase.ALLOCATING, Phase.STARTING)
"""A suspended job passes through these: on Kubernetes its object has it go on, and where it is to
begin is said beside that."""


def _job(state: State, event: e.JobRequest) -> Refusal | None:
    job = state.jobs.get(event.job)
    if job is None:
        return _no_job(event.job)
    if job.finished and not isinstance(event, e.DeleteRequested):
        return Refusal(
            "finished-job",
            f"job: {job.name!r} is {job.phase} and stays so. Submit it again under another name.",
        )
    return _against_wish(state, job, event)


def _no_job(name: str) -> Refusal:
    return Refusal(
        "unknown-job",
        f"job: there is no {name!r}. `holdfast jobs` lists the jobs that there are.",
    )


def _version(state: State, event: e.JobFactTold) -> Refusal | None:
    """Why nothing can be told of this version of a job."""
    job = state.jobs.get(event.job)
    if job is None:
        return _no_job(event.job)
    known = [each.number for each in job.versions]
    if event.version not in (None, *known):
        shown = ", ".join(str(number) for number in known[-SHOWN:])
        return Refusal(
            "unknown-version",
            f"version: {job.name!r} has no version {event.version}. Name one that it has: {shown}.",
            str(event.version),
        )
    number = event.version or known[-1]
    if event.says == "accuses" and number == known[0]:
        return Refusal(
            "no-version-before",
            f"says: 'accuses' of version {number} of {job.name!r} would change nothing, for no "
            "version before it is known to go back to. Send 'context' instead (leave out "
            "--accuses): `why` shows it to people.",
            event.says,
        )
    return None


def _no_words(words: str) -> str:
    """Why this is no fact that a person tells; "" where it is one."""
    if not words.strip():
        return "words: they are empty. Say what is known, in a sentence."
    if len(words) > LONGEST_WORDS:
        return f"words: they have {len(words):,} characters. Use {LONGEST_WORDS} at most."
    return ""


def _against_wish(state: State, job: Job, event: e.JobRequest) -> Refusal | None:
    """Requests that contradict what was asked for before."""
    ending = job.ends is not None or job.wanted in (Wanted.STOP, Wanted.DELETE)
    if isinstance(event, e.SuspendRequested | e.ResumeRequested | e.UpdateRequested) and ending:
        how = "is being stopped" if job.ends is None else "is over, and saves its last step"
        return Refusal(
            "ending-job",
            f"job: {job.name!r} {how}. Submit it again under another name.",
        )
    if isinstance(event, e.SuspendRequested | e.UpdateRequested) and job.parked:
        return Refusal(
            "parked-job",
            f"job: {job.name!r} is parked ({job.parked}), and looked at again by itself. "
            "Stop it, or ask again then.",
        )
    if isinstance(event, e.ResumeRequested) and event.from_step is not None:
        return _not_from(state, job, event.from_step)
    if isinstance(event, e.ResumeRequested) and job.wanted is Wanted.RUN:
        return Refusal(
            "not-suspended",
            f"job: {job.name!r} is {job.phase}, not {Phase.SUSPENDED}. There is nothing to resume.",
        )
    return None


def steps_found(state: State, job: Job) -> tuple[int, ...]:
    """Steps that the job could start from, the newest first."""
    told = known_points.told(job, quiet_of(state.nodes, job))
    return tuple(sorted({each.step for each in told if each.usable}, reverse=True))


def _not_from(state: State, job: Job, step: int) -> Refusal | None:
    """Why the job cannot be told to start from `step`; 0 is the beginning."""
    held = not job.seated and (job.unsure_s is not None or job.phase in BEFORE_A_START)
    if not held and job.wanted is not Wanted.SUSPEND:
        return Refusal(
            "not-waiting",
            f"job: {job.name!r} is {job.phase}, and does not wait to learn which "
            "checkpoints its store has. Suspend it first, or leave it to go on by itself.",
        )
    known = steps_found(state, job)
    if step and step not in known:
        shown = ", ".join(str(each) for each in known[:SHOWN]) or "none"
        return Refusal(
            "unknown-step",
            f"from_step: step {step} is not among the checkpoints that are found: {shown}. "
            "Take one of these, or 0 for the beginning.",
        )
    return None


def _brake(state: State, event: e.BrakeRequest) -> Refusal | None:
    wants_on = isinstance(event, e.BrakeApplyRequested)
    if state.brake.on and wants_on:
        sentence = f"brake: it is on already ({state.brake.why}). There is nothing to apply."
        return Refusal("brake-on", sentence)
    if not (state.brake.on or wants_on):
        return Refusal("brake-off", "brake: it is not on. There is nothing to release.")
    return None


def _node(state: State, event: e.NodeRequest) -> Refusal | None:
    node = state.nodes.get(event.node)
    if node is None:
        return _no_node("node", event.node)
    if isinstance(event, e.NodeFactTold) and event.to and (why := _no_link(state, event)):
        return why
    if not isinstance(event, e.NodeRestoreRequested) and node.stranger:
        return Refusal(
            "strange-node",
            f"node: the cluster does not know {node.name!r}, so no job can get it. "
            "End the executor that connects under this name.",
        )
    if isinstance(event, e.NodeMaintainRequested) and node.quarantine:
        return Refusal("quarantined-node", _out_already(node.name, node.quarantine))
    out = node.quarantine
    if isinstance(event, e.NodeEvictRequested) and out and out.by_person:
        return Refusal(
            "quarantined-node",
            f"node: {node.name!r} is evicted already ({out.why}). "
            f"`holdfast nodes restore {node.name}` takes that back.",
        )
    noticed = Source.PERSON in node.against
    doubted = not isinstance(node.trust, Trusted)
    if isinstance(event, e.NodeRestoreRequested) and not (doubted or noticed):
        return Refusal(
            "usable-node", f"node: {node.name!r} is not evicted. There is nothing to restore."
        )
    return None


def _diagnose(state: State, event: e.DiagnoseRequested) -> Refusal | None:
    """Why not all of these nodes, or none at all, can be tested now."""
    for name in event.nodes:
        if name not in state.nodes:
            return _no_node("nodes", name)
        if bars := asked.against(state, state.nodes[name], 0.0):
            return Refusal(
                "busy-node", f"nodes: {name!r} cannot be tested now: {bars[0]}. {_LATER}"
            )
    bars_of_all = [asked.against(state, node, 0.0) for node in state.nodes.values()]
    if not event.nodes and all(bars_of_all):
        why = f"{bars_of_all[0][0]}, the first says" if bars_of_all else "there are no nodes"
        return Refusal("no-free-node", f"nodes: none can be tested now ({why}). {_LATER}")
    return None


_LATER = "`holdfast nodes` shows who has it; suspend its job, or ask again later."


def _calibrate(state: State, event: e.CalibrateRequested) -> Refusal | None:
    """Why nothing can be learned from this diagnosis."""
    if (none := _diagnosis(state, event)) is not None:
        return none
    exam = asked.found(state.exams.values(), event.diagnosis)
    assert exam is not None
    assert exam.asked is not None
    verdict, good = exam.asked.verdict, len(good_of(exam.asked))
    if verdict is None:
        why = f"diagnosis: {event.diagnosis} is not over. Ask again once it is."
    elif verdict.bad:
        named = ", ".join(f"the {part} of {node}" for node, part in verdict.bad.items())
        why = f"diagnosis: {named} is bad, and nothing is kept. Name the others."
    elif good < LEAST_NODES:
        why = f"diagnosis: {good} of its nodes are good, and {LEAST_NODES} are needed. Name more."
    else:
        return None
    return Refusal("no-figures", why)


def _diagnosis(
    state: State, event: e.DiagnoseEndRequested | e.CalibrateRequested
) -> Refusal | None:
    if asked.found(state.exams.values(), event.diagnosis) is not None:
        return None
    number = event.diagnosis
    why = f"diagnosis: there is no {number}. Ask for a new one."
    return Refusal("unknown-diagnosis", why, str(number))


def _no_node(field: str, name: str) -> Refusal:
    return Refusal(
        "unknown-node",
        f"{field}: there is no {name!r}. `holdfast nodes` lists the nodes that there are.",
        name,
    )


def _no_link(state: State, event: e.NodeFactTold) -> Refusal | None:
    """Why there is no link between these two."""
    if event.to == event.node:
        return Refusal("one-node", f"to: {event.to!r} is the node itself. Name the other end.")
    return None if event.to in state.nodes else _no_node("to", event.to)


def _out_already(node: str, out: Quarantined) -> str:
    """To who wants to work on an evicted node."""
    fix = "It is free to be worked on."
    if not out.by_person:
        fix = f"`holdfast nodes evict {node}` keeps it from being tested, and used, meanwhile."
    return f"node: {node!r} is evicted already ({out.why}). {fix}"
