"""A place leaves a node whose tests find nothing. Pure: the driver's journal tells.

Called by `chaos.play` where that has to follow.
"""

from collections.abc import Sequence

from holdfast.driver.core.effects import Instruct
from holdfast.driver.ports import Entry

ACQUITTED = "find no fault with any node"
"""What the journal says of tests."""


def wrong(entries: Sequence[Entry], job: str, node: str, tests: int) -> list[str]:
    """Where the job's newest attempt still has ranks on the node, or left it before it was tested
    so often; in sentences.
    """
    hosts: dict[int, set[str]] = {}  # nodes by attempt
    tested: dict[int, int] = {}  # tests that found nothing, by the newest attempt then
    for entry in entries:
        newest = max(hosts, default=0)
        tested[newest] = tested.get(newest, 0) + _acquits(entry, job, node)
        for effect in entry.effects:
            if isinstance(effect, Instruct) and effect.desired.job == job and effect.desired.seats:
                seated = {seat.node for seat in effect.desired.seats}
                hosts.setdefault(effect.desired.epoch, set()).update(seated)
    if not hosts or node in hosts[max(hosts)]:
        return [f"{node} has ranks of {job} still"]
    last = max((epoch for epoch in hosts if node in hosts[epoch]), default=0)
    before = sum(count for epoch, count in tested.items() if epoch <= last)
    return [] if before >= tests else [f"{job} left {node} after {before} tests that found nothing"]


def _acquits(entry: Entry, job: str, node: str) -> bool:
    return job in entry.jobs and ACQUITTED in entry.why and node in entry.why
