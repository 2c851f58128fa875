"""What earlier Holdfasts counted of a job's faults and of a node's, as facts. Pure.

Called by `older`. Up to version 5 there was a counter for each rule that counted: restarts that
were paid, places where a job stood still, ends of ranks, nodes it had left, faults of a node and
tests that found nothing. Up to version 6 there was a list of pairs that could not reach each other.
What they did not know, a fact does not say.
"""

from collections.abc import Iterator
from typing import Any

Plain = dict[str, Any]

JOBS = ("spent", "spots", "passed", "ends", "moved")
RECORDS = ("strikes", "acquitted")


def upgraded(state: Plain) -> Plain:
    """The state with its counters in facts."""
    jobs = {name: _job(job) for name, job in state.get("jobs", {}).items()}
    nodes = {name: _node(node) for name, node in state.get("nodes", {}).items()}
    links = [link for pair in state.get("apart", ()) for link in _links(nodes, pair)]
    kept = {key: value for key, value in state.items() if key != "apart"}
    return {**kept, "jobs": jobs, "nodes": nodes, "facts": [*links, *state.get("facts", ())]}


def _links(nodes: Plain, pair: Plain) -> Iterator[Plain]:
    """Both ways: it was not kept which of them could not reach the other."""
    known = [_subject(nodes[name]) for name in pair["nodes"] if name in nodes]
    for source, target in (known, known[::-1]) if len(known) == 2 else ():
        link = {"type": "link", "source": source, "target": target}
        yield {"subject": link, "what": "unreachable", "bearing": "accuses", "at_s": pair["at_s"]}


def _subject(node: Plain) -> Plain:
    cleared = node.get("record", {}).get("cleared", 0)
    machine = node.get("machine", "")
    return {"type": "node", "name": node["name"], "machine": machine, "cleared": cleared}


def _job(job: Plain) -> Plain:
    facts = sorted(_of_job(job), key=lambda fact: fact["at_s"])
    kept = {key: value for key, value in job.items() if key not in JOBS}
    return {**kept, "facts": [*facts, *job.get("facts", ())]}


def _of_job(job: Plain) -> Iterator[Plain]:
    subject = {"type": "version", "job": job["name"], "number": job["versions"][-1]["number"]}
    fact = {"subject": subject, "what": "earlier", "bearing": "context"}
    about = {"job": job["name"], "version": subject["number"]}
    for spent in job.get("spent", ()):
        yield {**fact, "at_s": spent["at_s"], "payer": spent["blame"]}
    for words, times in job.get("spots", {}).items():
        site = {"words": words, "passed_s": job.get("passed", {}).get(words)}
        stood = {**fact, "fault": "stood", "stood": True, "about": {**about, "site": site}}
        yield from [{**stood, "at_s": job["since_s"]}] * times
    for end in job.get("ends", ()):
        yield from (_end(fact, about, end, node) for node in end["nodes"])
    for node, at_s in job.get("moved", {}).items():
        left = {**about, "node": {"type": "node", "name": node}}
        yield {**fact, "at_s": at_s, "about": left, "done": "move-cold"}


def _end(fact: Plain, about: Plain, end: Plain, node: str) -> Plain:
    mark = end["mark"]
    site = {"words": mark["how"], "step": mark["step"], "relative": mark.get("relative", False)}
    site["fresh"] = not mark["step"]
    said = mark["how"].startswith("exit code")
    named = {"node": {"type": "node", "name": node}} if node else {}
    told = {**about, **named, "site": site}
    return {**fact, "fault": "said" if said else "died", "at_s": end["at_s"], "about": told}


def _node(node: Plain) -> Plain:
    record = node.get("record", {})
    if not any(record.get(name) for name in RECORDS):
        return node
    fact = {"subject": {"type": "node", "name": node["name"], "machine": node.get("machine", "")}}
    blamed = [_of_node(fact, at_s, "context") for at_s in record.get("strikes", ())]
    cleared = [_of_node(fact, at_s, "acquits") for at_s in record.get("acquitted", ())]
    facts = sorted((*blamed, *cleared), key=lambda each: each["at_s"])
    kept = {key: value for key, value in record.items() if key not in RECORDS}
    return {**node, "record": {**kept, "facts": facts}}


def _of_node(fact: Plain, at_s: float, bearing: str) -> Plain:
    return {**fact, "what": "earlier", "bearing": bearing, "at_s": at_s}
