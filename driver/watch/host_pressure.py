"""What a host is short of: told once, and again only after it was over. Pure."""

from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.model import Findings, Settings, evidence
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Heartbeat

Reported = frozenset[str]
"""State of one node: what is short now."""

RESOURCES = {
    "scratch_used": ("disk", Kind.DISK_FULL),
    "memory_used": ("memory", Kind.PRESSURE),
}


class HostPressure(Detector):
    def __init__(self) -> None:
        self._short: dict[str, Reported] = {}  # by node

    def heard(self, beat: Heartbeat, context: Context) -> Findings:
        before = self._short.pop(beat.node, frozenset())
        short, findings = judge(before, beat, context.settings)
        if short:
            self._short[beat.node] = short
        return findings

    def gone(self, node: str) -> None:
        self._short.pop(node, None)


def judge(told: Reported, beat: Heartbeat, settings: Settings) -> tuple[Reported, Findings]:
    """The host pressure of one heartbeat."""
    shares = beat.pressure
    short = frozenset([name for name in RESOURCES if getattr(shares, name) >= settings.pressure])
    new = sorted(short - told)
    return short, tuple([_finding(beat.node, name, float(getattr(shares, name))) for name in new])


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
