"""What follows from tests off the job, for a node that was evicted and for one that was suspected.

Called by `off_the_job`. Pure.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from holdfast.diagnostics.verdict import Verdict
from holdfast.driver.core.evidence import book
from holdfast.driver.core.faults.fault import infrastructure
from holdfast.driver.core.job import eviction
from holdfast.driver.core.job.allocation import rest
from holdfast.driver.core.state.fact import Bearing, Fact
from holdfast.driver.core.state.model import Fault
from holdfast.driver.core.state.node import Suspect, Trusted
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Evidence, Kind, Weight

TRIES = 2
"""Of a suspect's exams of which nobody told anything; then it is used again, after a rest."""


def passed(turn: Turn, node: str) -> None:
    """Nothing was found."""
    trust = turn.nodes[node].trust
    acquit(turn, node)
    low_s = book.low_after_s(turn.nodes[node].record.facts, turn.now)
    if isinstance(trust, Suspect):
        turn.set_trust(node, Trusted())
        turn.say(f"the tests of {node} find nothing against it: it is used again", trust.setup.job)
    elif low_s:
        eviction.put_exam(turn, node, low_s + turn.policy.requalify_after_s)
        left = book.suspicion(turn.nodes[node].record.facts, turn.now)
        turn.say(f"{node} passed its tests and stays out: suspicion is {left:.1f} still")
    else:
        eviction.trust(turn, node, asked=False)
        turn.say(f"{node} passed its tests and is trusted again")


def acquit(turn: Turn, node: str) -> None:
    """Tests that find nothing are no cure: of a node that faults come from, that is noted."""
    facts = turn.nodes[node].record.facts
    lately = book.blamed(facts, turn.now - turn.policy.blame_window_s)
    if lately or book.suspicion(facts, turn.now):
        subject = turn.nodes[node].subject
        turn.add_fact(Fact(subject=subject, what="tests", bearing=Bearing.ACQUITS))


def failed(turn: Turn, node: str, verdict: Verdict) -> None:
    """The tests convict a suspect, or do not clear one that was evicted."""
    trust = turn.nodes[node].trust
    if isinstance(trust, Suspect):
        _convict(turn, node, trust.setup.job, verdict)
    else:
        eviction.wait_for_exam(turn, node)
        why = f"{node} did not pass its tests ({verdict.evidence[0]}) and stays out"
        turn.say(f"{why}; {_next(turn, node)}")


def stays(turn: Turn, node: str, why: str) -> None:
    """Nothing but its own tests speaks against the suspect, and those that were held now cleared it
    no more than they convict it."""
    eviction.wait_for_exam(turn, node)
    turn.say(f"{node} stays a suspect ({why}); {_next(turn, node)}")


def doubtful(node: str, why: str) -> Verdict:
    """Of a node of which nothing was heard."""
    return Verdict(bad={}, undecided=(node,), evidence=(why,))


def _convict(turn: Turn, node: str, job: str, verdict: Verdict) -> None:
    part = verdict.bad[node]
    fault = diagnosed(node, f"the {part} of {node} failed its tests", verdict.evidence)
    reason, outcome = f"its {part} failed the tests", "no job was using the node"
    eviction.evict_at_rest(turn, fault, outcome, job, reason=reason)
    if not turn.nodes[node].quarantined:  # while the brake is on it only rests
        turn.set_trust(node, Trusted())


def diagnosed(node: str, summary: str, evidence: Iterable[str] = ()) -> Fault:
    """The fault of a node that its tests convict."""
    told = (Evidence(source="diagnosis", text=line) for line in evidence)
    return infrastructure(Kind.DIAGNOSTIC_FAILED, Weight.CONCLUSIVE, summary, node, *told)


def put_off(turn: Turn, node: str, why: str, *, ordered: bool) -> None:
    """It waits as long as before. A suspect's tests that twice told nothing are given up."""
    trust = turn.nodes[node].trust
    if isinstance(trust, Suspect) and trust.beside is not None and ordered:
        stays(turn, node, why)
    elif isinstance(trust, Suspect):
        _try_again(turn, node, replace(trust, tries=trust.tries + ordered, after=()), why)
    else:
        eviction.put_exam(turn, node, turn.nodes[node].record.exam_wait_s)
        turn.say(f"{node} could not be tested ({why}); {_next(turn, node)}")


def _try_again(turn: Turn, node: str, suspect: Suspect, why: str) -> None:
    if suspect.tries < TRIES:
        turn.set_trust(node, replace(suspect, exam_s=turn.now + turn.policy.rest_s))
        turn.say(f"{node} could not be tested ({why}); that is tried again")
        return
    turn.set_trust(node, Trusted())
    rest(turn, node, f"it could not be tested: {why}")
    turn.say(f"{node} could not be tested ({why}): it is used again after a while")


def _next(turn: Turn, node: str) -> str:
    return f"the next tests are in {turn.nodes[node].record.exam_wait_s:g} s"
