"""What a host is short of: told once, and again only after it was over. Pure."""

from holdfast.driver.watch.model import Findings, Settings, evidence
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Heartbeat

Reported = frozenset[tuple[str, str]]
"""State: (node, resource) of what is short now."""

RESOURCES = {
    "scratch_used": ("disk", Kind.DISK_FULL),
    "memory_used": ("memory", Kind.PRESSURE),
}


def judge(told: Reported, beat: Heartbeat, settings: Settings) -> tuple[Reported, Findings]:
    """The host pressure of one heartbeat."""
    shares = {name: float(getattr(beat.pressure, name)) for name in RESOURCES}
    short = {(beat.node, name) for name, share in shares.items() if share >= settings.pressure}
    findings = tuple(_finding(beat.node, name, shares[name]) for _, name in sorted(short - told))
    others = {key for key in told if key[0] != beat.node}
    return frozenset(others | short), findings


def _finding(node: str, name: str, share: float) -> Finding:
    word, kind = RESOURCES[name]
    text = f"{share:.0%} of the {word} of {node} is used"
    return Finding(
        kind=kind,
        weight=Weight.REPORT,
        node=node,
        summary=text,
        evidence=(evidence(f"daemon of {node}", text, share=round(share, 3)),),
    )
