"""What it costs to evict a node or to stop a job, and what a fact means, told before. Pure.

Used by the page and by `holdfast top`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.page.status import Incidents, Job
from holdfast.page.words import FINISHED, duration, ranks
from holdfast.protocol.counts import plural

Node = Mapping[str, Any]


def of_eviction(
    node: Node, job: Job | None, nodes: Sequence[Node], incidents: Incidents | None
) -> list[str]:
    """Sentences, the weightiest first. `job`: the one that has the node, `incidents` those of it,
    None where they were not asked for; `nodes`: all that there are."""
    out = "It gets no work until it has passed its tests, or a person uses it again."
    if job is None or job["phase"] in FINISHED:
        return ["It has no job: nothing stops.", out]
    if node["standby"]:
        return [f"{job['name']} goes on: the node is a standby of it, and has no ranks.", out]
    stops = f"{job['name']} stops on all of its {plural(job['ranks'], 'rank')}"
    who = f"{ranks(node['ranks'])} of them here" if node["ranks"] else "none of them here"
    return [
        f"{stops}, {who}, and starts again elsewhere.",
        _elsewhere(job, nodes),
        _behind(job),
        *([_took(incidents)] if incidents is not None else []),
        out,
    ]


def _elsewhere(job: Job, nodes: Sequence[Node]) -> str:
    """Who takes over."""
    if job["standbys"]:
        return f"Its standby {job['standbys'][0]} takes over."
    free = [each["name"] for each in nodes if each["state"] == "free"]
    if free:
        more = f", as are {len(free) - 1:,} more" if len(free) > 1 else ""
        return f"It has no standby; {free[0]} is free{more}."
    return "No other node is free: the job waits until one is."


def _behind(job: Job) -> str:
    """How far back it may have to go: memory of the other nodes is nearer, and not promised."""
    if job["step"] is None:
        return "It has not told of a step yet."
    if job["stored_step"] is None:
        return f"It is at step {job['step']:,}, and its store has no checkpoint yet."
    steps = max(0, job["step"] - job["stored_step"])
    took = f", {duration(steps * job['step_s'])} of training" if steps and job["step_s"] else ""
    return (
        f"At worst it goes back from step {job['step']:,} to {job['stored_step']:,} in its store"
        f"{took}."
    )


def _took(incidents: Incidents) -> str:
    """What its last recovery cost, for this one may cost as much."""
    took = [each["down_s"] for each in incidents if each["faults"] and each["down_s"] is not None]
    if not took:
        return "It has not recovered from anything yet, so nobody knows how long that takes."
    return f"Its last recovery took {duration(took[-1])}."


def of_stop(job: Job) -> list[str]:
    """Sentences."""
    said = [
        f"All of its {plural(job['ranks'], 'rank')} get SIGTERM, and SIGKILL after their grace."
    ]
    if job["stored_step"] is not None:
        step = f" It is at step {job['step']:,}." if job["step"] is not None else ""
        said.append(f"Its store has step {job['stored_step']:,}.{step}")
    else:
        said.append("Its store has no checkpoint: what it has trained is lost, unless it saves.")
    return [*said, "A job that was stopped cannot be resumed: it would have to be submitted anew."]


def of_fact(node: str, given: Mapping[str, Any]) -> list[str]:
    """What it means that a person says this of a node, or of the link from it `to` another."""
    says, to = given["says"], given.get("to")
    if says == "context":
        return [FOR_PEOPLE]
    if to and says == "accuses":
        return [f"{node} and {to} are kept apart for a day."]
    if to:
        return ["What is held against this link counts no more."]
    if says == "accuses":
        return [
            f"You are one accuser of {node}; three put it into quarantine "
            "once a fault stands out there.",
            "A job that has it would then stop on all of its ranks, and start again elsewhere.",
        ]
    return [
        f"What is held against {node} counts no more.",
        "A node in quarantine stays there: use it again, or let it pass its tests.",
    ]


FOR_PEOPLE = "It is for people alone: whoever asks why is told, and nothing is decided by it."


def of_fact_of_version(version: str, says: str) -> list[str]:
    """The same of a version of a job."""
    if says == "clears":
        return [f"It closes {version} as a cause: the next fault is looked for elsewhere."]
    return [f"It opens {version} as a cause."] if says == "accuses" else [FOR_PEOPLE]
