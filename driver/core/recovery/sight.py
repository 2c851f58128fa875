"""Whether the driver sees well enough to accuse anybody. Pure.

Many that fall silent at once, and a driver that has only just come back, are more likely its own
blindness than faults of theirs: what was found then is waited for, said, and put down to nobody.
"""

from holdfast.driver.core.placing import eviction
from holdfast.driver.core.state.model import Fault, Job
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Kind

DOUBTFUL = frozenset({Kind.HANG, Kind.NO_PROGRESS})
"""What is concluded of not hearing, while nobody has said anything."""


def hindered(turn: Turn, job: Job, fault: Fault) -> str:
    """Why it may be the driver that does not see; "" where it sees."""
    if fault.kind not in DOUBTFUL:
        return ""
    silent = [node for node in job.places if node and not turn.nodes[node].connected]
    if len(silent) > eviction.cap(turn, turn.policy.silence_share):
        return f"{len(silent)} of its {len(job.places)} nodes are silent at once"
    return ""
