"""What the demo measured, and how it is said. Pure: made of facts that others looked up."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

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
    loss_equal_bitwise: bool
    leftovers: int
    kind: str  # what the nodes were made of


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the summary is made of."""

    fault: str
    nodes: int
    ranks: int
    kind: str
    hurt_node: str | None  # None: the fault was done to no node
    may_evict: bool  # the fault is one for which the node has to go
    delayed_s: float | None  # from the fault to its finding
    incidents: Sequence[Mapping[str, Any]]
    job: Mapping[str, Any]
    losses: Losses
    reference: Losses
    leftovers: int


def summarise(facts: Facts) -> Summary:
    """The verdict and its figures."""
    evicted = [node for incident in facts.incidents for node in incident["evicted"]]
    innocent = [node for node in evicted if not facts.may_evict or node != facts.hurt_node]
    last = facts.incidents[-1] if facts.incidents else {}
    took_s = last.get("recovered_s")
    recovered_s = None if took_s is None or facts.delayed_s is None else facts.delayed_s + took_s
    return Summary(
        verdict=_verdict(facts, innocent, recovered_s),
        fault=facts.fault,
        nodes=facts.nodes,
        ranks=facts.ranks,
        steps=facts.losses.last_step,
        detected_s=_rounded(facts.delayed_s),
        recovered_s=_rounded(recovered_s),
        steps_lost=last.get("steps_lost"),
        evicted=evicted,
        innocent_evicted=len(innocent),
        loss_equal_bitwise=equal_bitwise(facts.losses, facts.reference),
        leftovers=facts.leftovers,
        kind=facts.kind,
    )


def _verdict(facts: Facts, innocent: list[str], recovered_s: float | None) -> str:
    if facts.job["phase"] != "Succeeded":
        return f"the job ended as {facts.job['phase']}: {facts.job['why']}"
    if not facts.incidents:
        return "the fault was not noticed"
    if recovered_s is None:
        return "no step beyond those before the fault was seen"
    if innocent:
        return f"evicted without cause: {', '.join(innocent)}"
    if facts.losses.disputed:
        return f"step {facts.losses.disputed[0]} was trained twice to different losses"
    if not equal_bitwise(facts.losses, facts.reference):
        step = first_difference(facts.losses, facts.reference)
        return f"losses differ from the undisturbed run at step {step}"
    if facts.leftovers:
        return f"{facts.leftovers} things were left behind"
    return "passed"


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
