"""Jobs of earlier Holdfasts, read as those of today. Pure.

Called by `older`. Up to version 2 a job had a plan, places, and lists of the checkpoints that were
acknowledged and of those that ranks died of; since then it has versions, a layout and points. Up to
version 3 a plan had a field for each threshold; since then it has a node class.
"""

from typing import Any

Plain = dict[str, Any]


def upgraded(job: Plain) -> Plain:
    """The job in today's form."""
    plan, seated = job["plan"], bool(job.get("seats"))
    layout = {
        "number": int(seated),
        "topology": plan.get("topology", {}),
        "nodes": plan["nodes"],
        "ranks_per_node": plan["ranks_per_node"],
        "places": job.get("places", ()),
    }
    version = {"number": 1, "plan": plan, "at_s": job["submitted_s"]}
    restore = job.get("restore")
    return {
        **job,
        "versions": [version],
        "layout": layout,
        "restore": restore and _point(restore, restore["source"]),
        "history": _history(job, seated=seated),
        "points": _points(job),
    }


def _history(job: Plain, *, seated: bool) -> list[Plain]:
    """Of ranks that run the newest entry tells which attempt they are."""
    *before, last = job.get("history") or [None]
    if last is not None and seated:
        last = {**last, "number": job["attempt"], "layout": 1}
    return [*before, *([last] if last else [])]


def _points(job: Plain) -> list[Plain]:
    stored = [_point(one, "store") for one in job.get("acknowledged", ())]
    if stored:
        stored[-1]["written_s"] = job.get("stored_s")
    tainted = {"type": "Tainted", "why": "ranks that started from it died at once"}
    spoiled = [{**_point(one, one["source"]), "status": tainted} for one in job.get("spoiled", ())]
    known = [(one["where"], one["step"], one["epoch"]) for one in spoiled]
    stored = [one for one in stored if ("store", one["step"], one["epoch"]) not in known]
    return sorted([*stored, *spoiled], key=lambda one: (one["step"], one["epoch"]))


def _point(saved: Plain, where: str) -> Plain:
    return {"step": saved["step"], "epoch": saved["epoch"], "where": where}


def with_node_class(job: Plain) -> Plain:
    """The same, with the thresholds of its plans in one mapping."""
    versions = [{**each, "plan": thresholds_named(each["plan"])} for each in job["versions"]]
    return {**job, "versions": versions}


def thresholds_named(old: Plain) -> Plain:
    """What had a field for each threshold, up to version 3; those that are not named are 0."""
    named = {name: old[name] for name in ("compute_gflops", "allreduce_mb_per_s") if name in old}
    return {**old, "node_class": named}
