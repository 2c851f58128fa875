"""Testing suspects and their neighbours while the job is quiet, and evicting whom the tests name.

Called by `advance` and by the deadline of a diagnosis. Pure: which tests to run and what results
mean is in `holdfast.diagnostics`, pure as well.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.diagnostics.plan import orders
from holdfast.diagnostics.thresholds import Thresholds, thresholds
from holdfast.diagnostics.verdict import Verdict, judge
from holdfast.driver.core import elsewhere, eviction, incidents, pairs
from holdfast.driver.core.events import DiagnosticEnded
from holdfast.driver.core.fit import Use, fits
from holdfast.driver.core.model import Diagnosis, Fault, Job, Timer
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame, Evidence, Kind, Weight


def begin(turn: Turn, name: str) -> None:
    """Order the tests. Suspects that are not there to be tested are left to their silence."""
    job = turn.jobs[name]
    there = [node for node in job.members if _takes_part(turn, job, node)]
    suspects = [node for node in job.suspects if node in there]
    if not suspects:
        turn.job(name, suspects=())
        return
    number = f"{job.incident or 0}.{turn.sequence}"
    tests = orders(
        id=number,
        suspects=suspects,
        healthy=[node for node in there if node not in suspects],
        addresses={node: turn.nodes[node].address for node in there},
        limit_s=job.plan.diagnose_s,
    )
    turn.job(name, diagnosis=Diagnosis(id=number, suspects=tuple(suspects), orders=tests))
    turn.set_timer(name, Timer.DIAGNOSE, job.plan.diagnose_s)
    turn.say(f"{name} tests {', '.join(tests)} (suspect: {', '.join(suspects)})", name)


def _takes_part(turn: Turn, job: Job, node: str) -> bool:
    return node in job.quiet and fits(Use.PARTNER, job, turn.nodes[node], turn.now)


def on_ended(turn: Turn, event: DiagnosticEnded) -> None:
    """One node's results are in."""
    node = turn.nodes.get(event.node)
    job = turn.jobs.get(node.job) if node and node.job else None
    diagnosis = job.diagnosis if job else None
    if job is None or diagnosis is None or diagnosis.id != event.id:
        return
    if event.node not in diagnosis.orders or event.node in diagnosis.results:
        return
    results = {**diagnosis.results, event.node: event.results}
    changed = Diagnosis(
        id=diagnosis.id, suspects=diagnosis.suspects, orders=diagnosis.orders, results=results
    )
    turn.job(job.name, diagnosis=changed)
    turn.say(f"{event.node} ended its tests", job.name)


def complete(job: Job) -> bool:
    """True once every node that is still there has given its results."""
    diagnosis = job.diagnosis
    if diagnosis is None:
        return False
    return all(n in diagnosis.results for n in diagnosis.orders if n in job.members)


def conclude(turn: Turn, name: str) -> None:
    """Judge what is there, evict whom it names, and let the job go on."""
    job = turn.jobs[name]
    diagnosis = job.diagnosis
    if diagnosis is None:
        return
    least, verdict = _verdict(job, diagnosis)
    tested = set(diagnosis.orders)
    left = tuple(node for node in job.suspects if node not in tested)
    turn.job(name, diagnosis=None, suspects=left)
    turn.drop_timers(name, Timer.DIAGNOSE)
    _note(turn, job, verdict)
    bad = {node: part for node, part in verdict.bad.items() if node in job.members}
    if bad and job.incident is not None:
        _name(turn, job.incident, bad)
        for node, part in bad.items():
            why = f"its {part} failed the tests"
            eviction.evict(turn, node, job.incident, why, compute_gflops=least.compute_gflops)
    _acquit(turn, diagnosis, verdict)
    for two in verdict.apart:
        _part(turn, name, two)
    if not bad:
        turn.say(f"tests of {', '.join(diagnosis.orders)} find no fault with any node", name)


def _part(turn: Turn, name: str, two: tuple[str, str]) -> None:
    """Nothing is wrong with either of the two, but they are not seated together."""
    pairs.note(turn, *two)
    turn.say(f"{' and '.join(two)} could not reach each other, and neither is convicted", name)
    job = turn.jobs[name]
    node = elsewhere.one_of(turn, job, two) if set(two) <= set(job.places) else None
    if node is not None:
        turn.say(f"try its place on another node than {node}", name)
        elsewhere.move(turn, name, node)


def _acquit(turn: Turn, diagnosis: Diagnosis, verdict: Verdict) -> None:
    """Tests that find nothing are no cure: of a node that faults come from, they are counted."""
    since = turn.now - turn.policy.strike_window_s
    for name in diagnosis.suspects:
        node = turn.nodes[name]
        record = node.record
        if record.strikes and not node.quarantined and name not in verdict.bad:
            lately = tuple(at_s for at_s in record.acquitted if at_s > since)
            turn.node(name, record=replace(record, acquitted=(*lately, turn.now)))


def _verdict(job: Job, diagnosis: Diagnosis) -> tuple[Thresholds, Verdict]:
    found = [result for results in diagnosis.results.values() for result in results]
    least = thresholds(
        found,
        compute_gflops=job.plan.compute_gflops,
        allreduce_mb_per_s=job.plan.allreduce_mb_per_s,
    )
    return least, judge(diagnosis.orders, found, least)


def _name(turn: Turn, number: int, bad: Mapping[str, str]) -> None:
    """Let the incident name who was convicted; where it does already, only whose fault it is."""
    incident = turn.incidents[number]
    if incident.node in bad:
        turn.incident(number, blame=Blame.INFRASTRUCTURE)
        return
    node, part = next(iter(bad.items()))
    fault = Fault(
        kind=Kind.DIAGNOSTIC_FAILED,
        weight=Weight.CONCLUSIVE,
        blame=Blame.INFRASTRUCTURE,
        node=node,
        summary=f"the {part} of {node} failed its tests",
    )
    turn.put_incident(incidents.rooted(incident, fault))


def _note(turn: Turn, job: Job, verdict: Verdict) -> None:
    if job.incident is None:
        return
    old = turn.incidents[job.incident]
    new = tuple(Evidence(source="diagnosis", text=line) for line in verdict.evidence)
    evidence = (*old.evidence, *new)[: incidents.KEPT_EVIDENCE]
    turn.incident(old.id, diagnosed_s=turn.now, evidence=evidence)
