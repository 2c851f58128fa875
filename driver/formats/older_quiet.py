"""What nodes told of a job when they were quiet, of earlier Holdfasts. Pure.

Called by `older`. Up to version 4 a job had it all, and listed whose older ranks had not ended;
since then each node has its own, and the job counts them.
"""

from typing import Any

Plain = dict[str, Any]


def upgraded(state: Plain) -> Plain:
    """The state with that in its nodes."""
    nodes = dict(state.get("nodes", {}))
    jobs = {name: _job(job, nodes) for name, job in state.get("jobs", {}).items()}
    return {**state, "jobs": jobs, "nodes": nodes}


def _job(job: Plain, nodes: dict[str, Plain]) -> Plain:
    """The job without it; its nodes are given theirs."""
    quiet, ending = job.get("quiet", {}), job.get("ending", ())
    told = [name for name in quiet if _give(nodes, job, name, quiet={**quiet[name], **_of(job)})]
    awaited = [name for name in ending if _give(nodes, job, name, ending=True)]
    kept = {key: value for key, value in job.items() if key not in ("quiet", "ending")}
    tally = {**job.get("tally", {}), "quiet": len(told), "ending": len(awaited)}
    return {**kept, "tally": tally}


def _of(job: Plain) -> Plain:
    return {"epoch": job.get("epoch", 0)}


def _give(nodes: dict[str, Plain], job: Plain, name: str, **known: Any) -> bool:
    """False where the node is not the job's."""
    holding = nodes.get(name, {}).get("holding", {})
    if holding.get("job") != job["name"]:
        return False
    nodes[name] = {**nodes[name], "holding": {**holding, **known}}
    return True
