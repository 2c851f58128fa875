"""Whether the driver sees well enough to accuse anybody. Pure.

Many that fall silent at once, and a driver that has only just come back, are more likely its own
blindness than faults of theirs: what was found then is waited for, said, and put down to nobody.
"""

from holdfast.driver.core.placing import eviction, move_on_suspicion
from holdfast.driver.core.state.fact import Act
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


def instead(turn: Turn, job: Job, fault: Fault) -> Act | None:
    """What is done about a node that is not heard, where no other may take its place: it is waited
    for as long as another one would need to come. None: it is replaced."""
    node = turn.nodes.get(fault.node or "")
    silent = fault.kind is Kind.NODE_LOST and node is not None and node.present
    if node is None or not silent or move_on_suspicion.may_move(turn, job, node.name):
        return None
    waited_s = turn.now - turn.incidents[job.incident or 0].found_s
    if node.connected and waited_s:
        return Act.RESTART
    return Act.WAIT if waited_s < turn.policy.connect_s else None
