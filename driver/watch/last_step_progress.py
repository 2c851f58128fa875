"""How much of a job's last step its store has taken, over all its nodes: said now and then. Pure.

Each of thousands of nodes reports every few seconds while a large step goes to the store. That is a
river: what of it the core has to know is that the step gets on. A file that was refused begins
anew, as does an agent: what was taken once is no progress the second time.
"""

import msgspec

from holdfast.driver.core.events import SaveProgressed
from holdfast.protocol.messages import Observed

EVERY_S = 10.0
"""Between two times that it is said of a job: a small part of how long the core waits for more."""


class Taking(msgspec.Struct, kw_only=True):
    """Of one attempt's end; filled in place, for each node's report."""

    epoch: int
    by_node: dict[str, int] = {}
    taken_bytes: int = 0
    told_bytes: int = 0
    told_s: float = float("-inf")


Takings = dict[str, Taking]
"""By job."""


def judge(takings: Takings, seen: Observed, now: float) -> SaveProgressed | None:
    """Take in what one node's store has taken; the whole of it, where that is to be said."""
    if seen.job is None or not seen.saved_bytes:
        return None
    known = takings.get(seen.job)
    if known is not None and seen.epoch < known.epoch:
        return None
    if known is None or known.epoch != seen.epoch:
        known = takings[seen.job] = Taking(epoch=seen.epoch)
    before = known.by_node.get(seen.node, 0)
    known.by_node[seen.node] = max(before, seen.saved_bytes)
    known.taken_bytes += known.by_node[seen.node] - before
    if known.taken_bytes <= known.told_bytes or now - known.told_s < EVERY_S:
        return None
    known.told_bytes, known.told_s = known.taken_bytes, now
    return SaveProgressed(job=seen.job, epoch=seen.epoch, taken_bytes=known.taken_bytes)
