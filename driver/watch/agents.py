"""Checkpoint agents that are asked and say nothing: said once a node and attempt. Pure.

That is no failing store: the store may be well, and another node's agent may write to it.
"""

from collections.abc import Mapping

from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.model import Findings, evidence
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Observed

Silent = Mapping[str, frozenset[tuple[int, str]]]
"""By job: of which epochs and nodes it was said."""


class SilentAgents(Detector):
    def __init__(self) -> None:
        self._told: Silent = {}

    def reported(self, seen: Observed, context: Context) -> Findings:
        self._told, findings = judge(self._told, seen)
        return findings

    def drop(self, job: str) -> None:
        self._told = {name: told for name, told in self._told.items() if name != job}


def judge(silent: Silent, seen: Observed) -> tuple[Silent, Findings]:
    """What one report of an executor says of it."""
    if seen.job is None or not seen.agent_silent:
        return silent, ()
    known, told = silent.get(seen.job, frozenset()), (seen.epoch, seen.node)
    if told in known:
        return silent, ()
    lately = {each for each in known if each[0] == seen.epoch}
    return {**silent, seen.job: frozenset({*lately, told})}, (_finding(seen.job, seen),)


def _finding(job: str, seen: Observed) -> Finding:
    text = f"the checkpoint agent on {seen.node} is silent: {seen.agent_silent}"
    return Finding(
        kind=Kind.AGENT_SILENT,
        weight=Weight.REPORT,
        job=job,
        epoch=seen.epoch,
        node=seen.node,
        summary=f"{text}. Nothing is known against the store of {job}",
        evidence=(evidence(f"executor of {seen.node}", text),),
    )
