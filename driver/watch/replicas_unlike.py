"""Replicas that held the same, and do not any more (faults.md, 10): a report. Pure.

Told once an epoch, by the agent that commits. One is named where all others, two at least, agree;
of two that differ neither is.
"""

from collections.abc import Mapping

from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.model import Expectation, Findings, evidence
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Observed, Unlike

MOST_NAMED = 8
"""Ranks that are listed in a sentence."""

Told = Mapping[str, int]
"""By job, the epoch of which it was said."""


class UnlikeReplicas(Detector):
    def __init__(self) -> None:
        self._told: Told = {}

    def reported(self, seen: Observed, context: Context) -> Findings:
        expected = context.expected.get(seen.job or "")
        self._told, findings = judge(self._told, seen, expected)
        return findings

    def drop(self, job: str) -> None:
        self._told = {name: epoch for name, epoch in self._told.items() if name != job}


def judge(told: Told, seen: Observed, expected: Expectation | None) -> tuple[Told, Findings]:
    """What one report of an executor says of it; `expected`: where the job's ranks sit."""
    if seen.job is None or seen.unlike is None or expected is None:
        return told, ()
    if expected.epoch != seen.epoch or told.get(seen.job) == seen.epoch:
        return told, ()
    found = _finding(seen.job, seen, seen.unlike, expected.node_of())
    return {**told, seen.job: seen.epoch}, (found,)


def _finding(job: str, seen: Observed, unlike: Unlike, nodes: Mapping[int, str]) -> Finding:
    node = None if unlike.odd is None else nodes.get(unlike.odd)
    who = _neither(unlike) if unlike.odd is None else _named(unlike, node or "a node")
    more = f" (and {unlike.tensors - 1} more)" if unlike.tensors > 1 else ""
    text = (
        f"{who} of {unlike.tensor!r}{more} at step {unlike.step}, of which all had the same at "
        f"step {unlike.since}: a processor or memory computes wrong, or the script itself changes "
        "it on one rank. No checkpoint of that is committed"
    )
    return Finding(
        kind=Kind.SILENT_CORRUPTION,
        weight=Weight.REPORT,
        job=job,
        epoch=seen.epoch,
        node=node,
        rank=unlike.odd,
        step=unlike.step,
        summary=text,
        evidence=(evidence(f"agent of {seen.node}", text),),
    )


def _named(unlike: Unlike, node: str) -> str:
    others = [rank for rank in unlike.ranks if rank != unlike.odd]
    return f"rank {unlike.odd} on {node} holds other bytes than {_ranks(others)}, which agree,"


def _neither(unlike: Unlike) -> str:
    return f"{_ranks(unlike.ranks)} hold different bytes (which is wrong two cannot tell)"


def _ranks(ranks: list[int] | tuple[int, ...]) -> str:
    listed = ", ".join(map(str, ranks[:MOST_NAMED]))
    return f"ranks {listed}{', …' if len(ranks) > MOST_NAMED else ''}"
