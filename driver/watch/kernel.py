"""Faults in a node's kernel log, by NVIDIA's XID or another line of the kernel's (faults.md, 29).
Pure.
"""

from holdfast.driver.core.evidence import signs
from holdfast.driver.watch.model import Findings, evidence
from holdfast.protocol.faults import Finding, Kind
from holdfast.protocol.kernellines import meaning
from holdfast.protocol.messages import Heartbeat, LogHit

Reported = frozenset[tuple[str, str, str]]
"""State: (node, daemon's incarnation, line) of what was told; a heartbeat may repeat a line."""


def judge(told: Reported, beat: Heartbeat) -> tuple[Reported, Findings]:
    """The kernel log's hits of one heartbeat."""
    lines = {(beat.node, beat.incarnation, hit.line): hit for hit in beat.logs if hit.of_kernel}
    findings = tuple(_finding(beat.node, hit) for key, hit in lines.items() if key not in told)
    kept = {key for key in told if key[0] != beat.node}
    return frozenset(kept | lines.keys()), findings


def _finding(node: str, hit: LogHit) -> Finding:
    text, weight, _ = meaning(hit.rule, hit.xid)
    what = f"XID {hit.xid} on" if hit.xid is not None else "the kernel of"
    data: dict[str, int | str] = {"rule": hit.rule} if hit.xid is None else {"xid": hit.xid}
    return Finding(
        kind=Kind.KERNEL_FAULT,
        weight=weight,
        sign=signs.of_kernel(hit.rule, hit.xid),
        node=node,
        summary=f"{what} {node}: {text}",
        evidence=(evidence(f"kernel log of {node}", hit.line, **data),),
    )
