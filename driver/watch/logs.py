"""Lines of the ranks' output that match a rule of the job. Pure: a keyword proves nothing, so that
what a hit may lead to is the rule's word, and `report` where it has none."""

from collections.abc import Mapping

from holdfast.driver.watch.model import Expectation, Findings, evidence
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Heartbeat, LogHit

_WEIGHTS = {"report": Weight.REPORT, "restart": Weight.RESTART, "suspect": Weight.SUSPECT}

Told = frozenset[tuple[str, str, int | None, str]]
"""State: (node, daemon's incarnation, rank, line) of the newest hits of each node."""


def judge(
    told: Told, beat: Heartbeat, expected: Mapping[str, Expectation]
) -> tuple[Told, Findings]:
    """The rank logs' hits of one heartbeat; `expected` by node."""
    hits = {
        (beat.node, beat.incarnation, hit.rank, hit.line): hit
        for hit in beat.logs
        if hit.xid is None
    }
    job = expected.get(beat.node)
    findings = tuple(_finding(beat.node, hit, job) for key, hit in hits.items() if key not in told)
    kept = {key for key in told if key[0] != beat.node}
    return frozenset(kept | hits.keys()), findings


def _finding(node: str, hit: LogHit, job: Expectation | None) -> Finding:
    actions = dict(job.log_rules) if job is not None else {}
    return Finding(
        kind=Kind.LOG_KEYWORD,
        weight=_WEIGHTS[actions.get(hit.rule, "report")],
        job=job.job if job is not None else None,
        epoch=job.epoch if job is not None else None,
        node=node,
        rank=hit.rank,
        summary=f"{hit.source} on {node} matches {hit.rule!r}: {hit.line[:120]}",
        evidence=(evidence(hit.source, hit.line, rule=hit.rule),),
    )
