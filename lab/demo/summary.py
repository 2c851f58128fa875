"""What the demo measured, and how it is said. Pure: made of facts that others looked up."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.lab.chaos.injectors import Done
from holdfast.lab.chaos.scenarios import Expected
from holdfast.lab.losses import Losses, equal_bitwise, first_difference


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


def summarise(facts: Facts) -> Summary:
    """The verdict and its figures."""
    evicted = [node for incident in facts.incidents for node in incident["evicted"]]
    hurt = (facts.done.node, facts.done.also) if facts.expected.may_evict else ()
    innocent = [node for node in evicted if node not in hurt]
    last = facts.incidents[-1] if facts.incidents else {}
    took_s = last.get("recovered_s")
    recovered_s = None if took_s is None or facts.delayed_s is None else facts.delayed_s + took_s
    return Summary(
        verdict=_verdict(facts, innocent),
        fault=facts.fault,
        nodes=facts.nodes,
        ranks=facts.ranks,
        steps=facts.losses.last_step,
        detected_s=_rounded(facts.delayed_s),
        recovered_s=_rounded(recovered_s),
        steps_lost=last.get("steps_lost"),
        evicted=evicted,
        innocent_evicted=len(innocent),
        loss_equal_bitwise=equal_bitwise(facts.losses, facts.reference)
        if facts.expected.compares_losses
        else None,
        leftovers=facts.leftovers,
        kind=facts.kind,
    )


def _verdict(facts: Facts, innocent: list[str]) -> str:
    if facts.job["phase"] != facts.expected.phase:
        return f"the job ended as {facts.job['phase']}: {facts.job['why']}"
    if facts.expected.incident != bool(facts.incidents):
        return "a fault was seen where none was" if facts.incidents else "the fault was not noticed"
    if innocent:
        return f"evicted without cause: {', '.join(innocent)}"
    wrong = _losses_wrong(facts) if facts.expected.compares_losses else ""
    if wrong:
        return wrong
    if facts.leftovers:
        return f"{facts.leftovers} things were left behind"
    return "passed"


def _losses_wrong(facts: Facts) -> str:
    """What is wrong with a job that had to go on to its end; "" where nothing is."""
    if facts.incidents and facts.incidents[-1].get("recovered_s") is None:
        return "no step beyond those before the fault was seen"
    if facts.losses.disputed:
        return f"step {facts.losses.disputed[0]} was trained twice to different losses"
    if not equal_bitwise(facts.losses, facts.reference):
        step = first_difference(facts.losses, facts.reference)
        return f"losses differ from the undisturbed run at step {step}"
    return ""


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
