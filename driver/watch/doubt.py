"""Why a standstill may be no fault of the ranks that it is put down to. Pure.

Used by `Watch`. Ranks that most of them are paused at once (a machine that was suspended, a cgroup
that was frozen, no CPU) were paused by somebody else. And where the clocks of a node and of the
driver went apart between two heartbeats, one of them stood, or was not heard: ages tell nothing.
"""

from msgspec.structs import replace

from holdfast.driver.watch.model import Findings, Ranks
from holdfast.driver.watch.standstill_manner import STOPPED
from holdfast.protocol.faults import Finding, Kind
from holdfast.telemetry.analysis.hang import SILENT_S

JUMP_S = 2.0
"""Two clocks that go so far apart between two heartbeats have jumped: of four heartbeats at the
period of a small cluster three are missing, or too many."""
LATELY_S = 10.0
"""For so long what is told of ages is in doubt."""

Jumps = dict[str, tuple[float, float]]
"""By node: when its clock and the driver's last went apart, and by how much, in seconds."""


def noted(jumps: Jumps, node: str, driver_s: float, node_s: float, now: float) -> None:
    """Take in how much time has passed since the heartbeat before, by either clock."""
    if abs(driver_s - node_s) > JUMP_S:
        jumps[node] = now, abs(driver_s - node_s)


def marked(findings: Findings, ranks: Ranks, seats: int, jumps: Jumps, now: float) -> Findings:
    """The findings, each with why it may be none."""
    why = paused(ranks, seats) or jumped(jumps, now) if any(map(_acts, findings)) else ""
    return tuple(replace(each, doubt=why) if _acts(each) else each for each in findings)


def _acts(finding: Finding) -> bool:
    return finding.kind in (Kind.HANG, Kind.NO_PROGRESS)


def paused(ranks: Ranks, seats: int) -> str:
    """That most ranks do not run, though their nodes are heard; of a job with several."""
    still = sum(seen.process in STOPPED or seen.silent_s > SILENT_S for seen in ranks.values())
    return f"{still} of its {seats} ranks are paused at once" if 1 < still > seats / 2 else ""


def jumped(jumps: Jumps, now: float) -> str:
    """Whose clock did, lately."""
    lately = ((at_s, by_s, node) for node, (at_s, by_s) in jumps.items() if now - at_s < LATELY_S)
    latest = max(lately, default=None)
    if latest is None:
        return ""
    return f"the clocks of the driver and of {latest[2]} went {latest[1]:.0f} s apart"
