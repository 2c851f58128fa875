"""States of earlier Holdfasts, read as those of today. Pure.

Called by `encode` with what MessagePack made of the bytes: mappings, in which what had its default
is left out. Up to version 1 a node had a flag for all that it could be; since then it has facets.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.driver.formats import older_facts, older_jobs, older_quiet

Plain = dict[str, Any]

SOURCES = {"person": "person", "cluster": "drain", "executor": "executor"}


def upgraded(state: Plain, version: int) -> Plain:
    """The state in today's form."""
    if version <= 2:
        state = {**state, "jobs": {name: older_jobs.upgraded(job) for name, job in _jobs(state)}}
    if version <= 1 and "nodes" in state:
        state = _with_facets(state)
    if version <= 3:
        state = _with_node_classes(state)
    return older_facts.upgraded(older_quiet.upgraded(state) if version <= 4 else state)


def running(state: Plain) -> dict[str, list[str]]:
    """By job, the nodes that had told that their ranks run: the job had that itself."""
    return {name: job.get("running", []) for name, job in _jobs(state)}


def _with_node_classes(state: Plain) -> Plain:
    """Up to version 3 each threshold of a node class was a field of its own."""
    jobs = {name: older_jobs.with_node_class(job) for name, job in _jobs(state)}
    nodes = {name: _of_node_class(node) for name, node in state.get("nodes", {}).items()}
    return {**state, "jobs": jobs, "nodes": nodes}


def _of_node_class(node: Plain) -> Plain:
    trust = node.get("trust", {})
    if not trust.get("setup"):
        return node
    return {**node, "trust": {**trust, "setup": older_jobs.thresholds_named(trust["setup"])}}


def _with_facets(state: Plain) -> Plain:
    """Its nodes in facets, and all exams in one place."""
    nodes = {name: _node(node) for name, node in state["nodes"].items()}
    jobs = {name: _job(job) for name, job in _jobs(state)}
    exams = {exam["id"]: exam for exam in _exams(state)}
    for exam in exams.values():
        for node in exam["orders"]:
            nodes[node]["exam"] = exam["id"]
    return {**state, "nodes": nodes, "jobs": jobs, "exams": exams}


def _jobs(state: Plain) -> Iterable[tuple[str, Plain]]:
    jobs: dict[str, Plain] = state.get("jobs", {})
    return jobs.items()


def _job(old: Plain) -> Plain:
    timers = {name: at_s for name, at_s in old.get("timers", {}).items() if name != "diagnose"}
    diagnosis = old.get("diagnosis")
    return {**old, "timers": timers, "exam": diagnosis["id"] if diagnosis else None}


def _exams(state: Plain) -> Iterator[Plain]:
    """Those of jobs, of evicted nodes, and of standbys, which were in three places."""
    for name, job in state.get("jobs", {}).items():
        if diagnosis := job.get("diagnosis"):
            orders = {n: o for n, o in diagnosis["orders"].items() if n in state["nodes"]}
            until_s = job.get("timers", {}).get("diagnose", 0.0)
            accused = {"accused": diagnosis["suspects"]}  # then whoever failed was convicted
            known = {**diagnosis, **accused, "orders": orders, "until_s": until_s, "job": name}
            yield {"purpose": "diagnosis", **known}
    for name, node in state["nodes"].items():
        for kind, purpose in (("trial", "requalification"), ("selftest", "standby")):
            if test := node.get(kind):
                yield {
                    "id": f"{test['orders'][0]['id']}",
                    "purpose": purpose,
                    "until_s": test["until_s"],
                    "orders": {name: test["orders"]},
                    "suspects": [name],
                    "job": node.get("job"),
                }


def _node(old: Plain) -> Plain:
    return {
        "name": old["name"],
        "rack": old.get("rack", ""),
        "presence": _presence(old),
        "link": _link(old),
        "holding": _holding(old),
        "trust": _trust(old),
        "against": dict(_against(old)),
        "told": _of(old, "generation", "epoch", "called"),
        "record": _of(
            old, "strikes", "acquitted", "evicted_s", "silenced", trial_wait_s="exam_wait_s"
        ),
        "retry_s": old.get("retry_s"),
    }


def _of(old: Plain, *names: str, **renamed: str) -> Plain:
    """Those of the fields that are there, under today's names."""
    today = {**{name: name for name in names}, **renamed}
    return {new: old[name] for name, new in today.items() if name in old}


def _presence(old: Plain) -> Plain:
    if old.get("present"):
        return {"type": "here"}
    if old.get("stranger"):
        return {"type": "unknown"}
    return {"type": "gone", "since_s": old.get("gone_s")}


def _link(old: Plain) -> Plain:
    if not old.get("incarnation"):
        return {"type": "never"}
    who = {"incarnation": old["incarnation"], "address": old.get("address", "")}
    if old.get("connected"):
        return {"type": "connected", **who}
    kind = "broken" if old.get("left") else "awaited"
    return {"type": kind, **who, "check_s": old.get("silent_check_s")}


def _holding(old: Plain) -> Plain:
    forget = {"forget": old.get("forget")}
    if old.get("job") is None:
        if old.get("trial"):
            return {"type": "lent"}
        return {"type": "returning" if old.get("releasing") else "free", **forget}
    if not old.get("allocated"):
        return {"type": "promised", "job": old["job"]}
    known = ("job", "came", "tested", "ran", "exited", "exits", "renewed_s", "starved_s")
    return {"type": "held", **_of(old, *known)}


def _trust(old: Plain) -> Plain:
    if not old.get("quarantined"):
        return {"type": "trusted", "unmark": old.get("trusting", False)}
    known = _of(old, "incident", "marked", asked="by_person", kit="setup", trial_s="exam_s")
    return {"type": "quarantined", "why": old.get("reason", ""), **known}


def _against(old: Plain) -> list[tuple[str, Plain]]:
    found: list[tuple[str, Plain]] = []
    if notice := old.get("notice"):
        found.append((SOURCES[notice["source"]], _of(notice, "why", "by_s", "returns")))
    if old.get("closed"):
        found.append(("cordon", {"why": old["closed"]}))
    if old.get("rest_until_s"):
        rest = {"why": old.get("rest_why", ""), "until_s": old["rest_until_s"]}
        found.append(("rest", rest))
    return found
