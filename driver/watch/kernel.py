"""Faults in a node's kernel log, by NVIDIA's XID (faults.md, 29). Pure."""

from holdfast.driver.watch.model import Findings, evidence
from holdfast.protocol.faults import Blame, Finding, Kind, Weight
from holdfast.protocol.messages import Heartbeat, LogHit

XIDS: dict[int, tuple[str, Weight, Blame]] = {
    13: ("graphics engine exception", Weight.RESTART, Blame.USER),
    31: ("memory page fault", Weight.RESTART, Blame.USER),
    48: ("double-bit ECC error", Weight.CONCLUSIVE, Blame.INFRASTRUCTURE),
    63: ("row remapping recorded", Weight.REPORT, Blame.INFRASTRUCTURE),
    64: ("row remapping failed", Weight.SUSPECT, Blame.INFRASTRUCTURE),
    74: ("NVLink error", Weight.SUSPECT, Blame.INFRASTRUCTURE),
    79: ("GPU has fallen off the bus", Weight.CONCLUSIVE, Blame.INFRASTRUCTURE),
    94: ("contained ECC error", Weight.RESTART, Blame.INFRASTRUCTURE),
    95: ("uncontained ECC error", Weight.CONCLUSIVE, Blame.INFRASTRUCTURE),
    119: ("GSP does not answer", Weight.CONCLUSIVE, Blame.INFRASTRUCTURE),
    120: ("GSP error", Weight.CONCLUSIVE, Blame.INFRASTRUCTURE),
    154: ("GPU recovery action changed", Weight.SUSPECT, Blame.INFRASTRUCTURE),
}
"""What each XID is and what may be done: faults.md, row 29, after NVIDIA's XID catalogue. An
unknown one is reported."""

Told = frozenset[tuple[str, str, str]]
"""State: (node, daemon's incarnation, line) of what was told; a heartbeat may repeat a line."""


def judge(told: Told, beat: Heartbeat) -> tuple[Told, Findings]:
    """The kernel log's hits of one heartbeat."""
    lines = {
        (beat.node, beat.incarnation, hit.line): hit for hit in beat.logs if hit.xid is not None
    }
    findings = tuple(_finding(beat.node, hit) for key, hit in lines.items() if key not in told)
    kept = {key for key in told if key[0] != beat.node}
    return frozenset(kept | lines.keys()), findings


def _finding(node: str, hit: LogHit) -> Finding:
    unknown = ("not in the table", Weight.REPORT, Blame.UNKNOWN)
    meaning, weight, blame = XIDS.get(hit.xid or 0, unknown)
    return Finding(
        kind=Kind.KERNEL_FAULT,
        weight=weight,
        blame=blame,
        node=node,
        summary=f"XID {hit.xid} on {node}: {meaning}",
        evidence=(evidence(f"kernel log of {node}", hit.line, xid=hit.xid),),
    )
