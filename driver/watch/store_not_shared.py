"""Nodes of a job that do not see each other's files in its store: said once, and once that they do.

Pure. Nothing is done about it: training goes on, though no checkpoint becomes whole.
"""

from collections.abc import Mapping

from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.model import NOTHING, Findings, Recalled, evidence
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Observed

Sharing = Mapping[str, frozenset[str]]
"""By job of which it was said: nodes that do not see their neighbour's. None is left where those
have left the job: the next one that sees its neighbour clears it."""


class StoresNotShared(Detector):
    def __init__(self) -> None:
        self._sharing: Sharing = {}

    def reported(self, seen: Observed, context: Context) -> Findings:
        recalled = context.recalled_of(seen.job or "")
        self._sharing, findings = judge(self._sharing, seen, recalled)
        return findings

    def drop(self, job: str) -> None:
        self._sharing = {name: nodes for name, nodes in self._sharing.items() if name != job}


def judge(
    sharing: Sharing, seen: Observed, recalled: Recalled = NOTHING
) -> tuple[Sharing, Findings]:
    """What one report of an executor says of it; who does not know yet changes nothing. `recalled`:
    what an earlier driver told of the job and did not take back."""
    node = recalled.get(Kind.STORE_NOT_SHARED)
    if seen.job is not None and seen.job not in sharing and node:
        sharing = {**sharing, seen.job: frozenset({node})}
    if not sharing and seen.store_shared is not False:
        return sharing, ()
    left = {
        job: nodes - {seen.node} if job != seen.job else nodes for job, nodes in sharing.items()
    }
    if seen.job is None or seen.store_shared is None:
        return left, ()
    if not seen.store_shared:
        known = left.get(seen.job)
        after = {**left, seen.job: (known or frozenset()) | {seen.node}}
        return after, () if known is not None else (_not_shared(seen.job, seen),)
    return _sees(left, seen.job, seen)


def _sees(sharing: Sharing, job: str, seen: Observed) -> tuple[Sharing, Findings]:
    if job not in sharing:
        return sharing, ()
    if rest := sharing[job] - {seen.node}:
        return {**sharing, job: rest}, ()
    text = f"nodes of {job} see each other's files in its store"
    others = {name: nodes for name, nodes in sharing.items() if name != job}
    return others, (_finding(Kind.STORE_SHARED, job, seen, text),)


def _not_shared(job: str, seen: Observed) -> Finding:
    text = (
        f"{seen.node} does not see {seen.store_missing}, so that no checkpoint of {job} becomes "
        "whole: that node has another folder there, or cannot write. Mount the same on every node"
    )
    return _finding(Kind.STORE_NOT_SHARED, job, seen, text)


def _finding(kind: Kind, job: str, seen: Observed, text: str) -> Finding:
    return Finding(
        kind=kind,
        weight=Weight.REPORT,
        job=job,
        epoch=seen.epoch,
        node=seen.node,
        summary=text,
        evidence=(evidence(f"executor of {seen.node}", text),),
    )
