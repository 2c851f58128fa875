"""Faults in a node's kernel log, by NVIDIA's XID or another line of the kernel's (faults.md, 29).
Pure.
"""

from holdfast.driver.core.evidence import signs
from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.model import Findings, evidence
from holdfast.protocol.faults import Finding, Kind
from holdfast.protocol.kernellines import meaning
from holdfast.protocol.messages import Heartbeat, LogHit

Reported = frozenset[tuple[str, str]]
"""State of one node: (daemon's incarnation, line) of what was told; it may come again."""


class KernelFaults(Detector):
    def __init__(self) -> None:
        self._told: dict[str, Reported] = {}  # by node

    def heard(self, beat: Heartbeat, context: Context) -> Findings:
        before = self._told.pop(beat.node, frozenset())
        if not beat.logs:
            return ()
        self._told[beat.node], findings = judge(before, beat)
        return findings

    def gone(self, node: str) -> None:
        self._told.pop(node, None)


def judge(told: Reported, beat: Heartbeat) -> tuple[Reported, Findings]:
    """The kernel log's hits of one heartbeat."""
    lines = {(beat.incarnation, hit.line): hit for hit in beat.logs if hit.of_kernel}
    findings = tuple(_finding(beat.node, hit) for key, hit in lines.items() if key not in told)
    return frozenset(lines), findings


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
