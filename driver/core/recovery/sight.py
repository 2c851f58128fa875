"""Whether the driver sees well enough to accuse anybody. Pure.

Many that fall silent at once, a driver that has only just come back, a clock that jumped, and ranks
that most of them are paused, are more likely its own blindness, or somebody's doing, than faults of
theirs: what was found then is waited for, said, and put down to nobody. Where the job goes on
meanwhile its detectors take it back; where it does not, it is acted on in the end.
"""

from holdfast.driver.core.faults.fault import STANDSTILLS
from holdfast.driver.core.placing import eviction
from holdfast.driver.core.state.model import Fault, Job
from holdfast.driver.core.turn import Turn

LOOK_AGAIN_S = 10.0
"""After which a fault is judged anew that the driver did not see well."""
LONGEST_S = 30.0
"""After which it is acted on all the same: longer than silence lasts before it counts by itself
(`Policy.reconnect_s`)."""


def hindered(turn: Turn, job: Job, fault: Fault) -> str:
    """Why it may be the driver that does not see; "" where it sees, or has waited for long."""
    waited_s = 0.0 if fault.waits_s is None else turn.now - fault.waits_s
    if fault.kind not in STANDSTILLS or waited_s >= LONGEST_S:
        return ""
    return fault.doubt or _just_back(turn) or _silent(turn, job)


def note_back(turn: Turn) -> bool:
    """The driver took over, or stood still until now. True where ranks ran meanwhile."""
    unseen = any(job.seated for job in turn.jobs.values())
    if unseen:
        turn.back_s = turn.now
    return unseen


def _just_back(turn: Turn) -> str:
    """Executors have as long to come back to it."""
    back_s = turn.policy.return_s if turn.back_s is None else turn.now - turn.back_s
    since = f"{back_s:.0f} s ago" if back_s >= 1 else "just now"
    return f"the driver came back {since}" if back_s < turn.policy.return_s else ""


def _silent(turn: Turn, job: Job) -> str:
    silent = [node for node in job.places if node and not turn.nodes[node].connected]
    if len(silent) <= eviction.cap(turn, turn.policy.silence_share):
        return ""
    return f"{len(silent)} of its {len(job.places)} nodes are silent at once"
