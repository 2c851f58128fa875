"""What the demo measured, and how it is said. Pure: made of facts that others looked up."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.lab.chaos.injectors import Done
from holdfast.lab.chaos.scenario import Expected
from holdfast.lab.losses import Losses, equal_bitwise, first_difference
from holdfast.lab.outcome import Outcome, rounded


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of `holdfast demo --json`. Seconds count from the fault."""

    verdict: str  # "passed", or what is wrong in a sentence
    fault: str
    nodes: int
    ranks: int
    steps: int
    detected_s: float | None
    recovered_s: float | None
    steps_lost: int | None
    evicted: list[str]
    innocent_evicted: int
    loss_equal_bitwise: bool | None  # None: not comparable, the fault ends the job
    leftovers: int
    kind: str  # what the nodes were made of


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the summary is made of."""

    fault: str
    nodes: int
    ranks: int
    kind: str
    done: Done
    expected: Expected
    delayed_s: float | None  # from the fault to its finding
    incidents: Sequence[Mapping[str, Any]]
    job: Mapping[str, Any]
    losses: Losses
    reference: Losses
    leftovers: int


def too_late(incidents: Sequence[Mapping[str, Any]], steps: int) -> bool:
    """Whether the job came back with nothing left to do: the fault was after its last step."""
    back_at = [incident["step"] for incident in incidents if incident["rung"]]
    return bool(back_at) and back_at[-1] == steps


def summarise(facts: Facts) -> Summary:
    """The verdict and its figures."""
    outcome = Outcome.of(facts.incidents, facts.done, facts.expected)
    return Summary(
        verdict=_verdict(facts, outcome),
        fault=facts.fault,
        nodes=facts.nodes,
        ranks=facts.ranks,
        steps=facts.losses.last_step,
        detected_s=rounded(facts.delayed_s),
        recovered_s=rounded(recovered_s(facts.delayed_s, outcome)),
        steps_lost=outcome.steps_lost,
        evicted=list(outcome.evicted),
        innocent_evicted=len(outcome.innocent),
        loss_equal_bitwise=equal_bitwise(facts.losses, facts.reference)
        if facts.expected.compares_losses
        else None,
        leftovers=facts.leftovers,
        kind=facts.kind,
    )


def recovered_s(delayed_s: float | None, outcome: Outcome) -> float | None:
    """From the fault to the first new step, once there was one. `delayed_s`: to its finding."""
    if delayed_s is None or not outcome.recovered:
        return None
    first, last = outcome.acted[0], outcome.acted[-1]
    after_s: float = last["found_s"] - first["found_s"] + last["recovered_s"]
    return delayed_s + after_s


def _verdict(facts: Facts, outcome: Outcome) -> str:
    if facts.job["phase"] != facts.expected.phase:
        return f"the job ended as {facts.job['phase']}: {facts.job['why']}"
    if facts.expected.incident != bool(outcome.acted):
        return "a fault was seen where none was" if outcome.acted else "the fault was not noticed"
    if outcome.innocent:
        return f"evicted without cause: {', '.join(outcome.innocent)}"
    wrong = _losses_wrong(facts, outcome) if facts.expected.compares_losses else ""
    if wrong:
        return wrong
    if facts.leftovers:
        return f"{facts.leftovers} things were left behind"
    return "passed"


def _losses_wrong(facts: Facts, outcome: Outcome) -> str:
    """What is wrong with a job that had to go on to its end; "" where nothing is."""
    if outcome.acted and not outcome.recovered:
        return "no step beyond those before the fault was seen"
    if facts.losses.disputed:
        return f"step {facts.losses.disputed[0]} was trained twice to different losses"
    if not equal_bitwise(facts.losses, facts.reference):
        step = first_difference(facts.losses, facts.reference)
        return f"losses differ from the undisturbed run at step {step}"
    return ""
