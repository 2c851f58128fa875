"""Where a job's ranks were, and that it leaves nodes on which they die, and no others. Pure: the
driver's journal tells.

Called by `chaos.play`.
"""

from collections.abc import Collection, Sequence

from holdfast.driver.core.effects import Instruct
from holdfast.driver.ports import Entry


def meeting(entries: Sequence[Entry], job: str) -> str:
    """The node on which the job's ranks met first, where their store was; "" where they did not."""
    for entry in entries:
        for effect in entry.effects:
            if isinstance(effect, Instruct) and _hosts_rendezvous(effect, job):
                return effect.desired.node
    return ""


def _hosts_rendezvous(effect: Instruct, job: str) -> bool:
    return effect.desired.job == job and effect.desired.host_rendezvous


def wrong(entries: Sequence[Entry], job: str, lemons: Collection[str]) -> list[str]:
    """Where the job's newest attempt still has ranks on a lemon, or has none more on a node that it
    had at first and that is none; in sentences.
    """
    hosts: dict[int, set[str]] = {}  # nodes by attempt
    for entry in entries:
        for effect in entry.effects:
            if isinstance(effect, Instruct) and effect.desired.job == job and effect.desired.seats:
                seated = {seat.node for seat in effect.desired.seats}
                hosts.setdefault(effect.desired.epoch, set()).update(seated)
    if not hosts:
        return [f"{job} never had a node"]
    first, last = hosts[min(hosts)], hosts[max(hosts)]
    stayed = [f"{node} has ranks of {job} still" for node in sorted(last.intersection(lemons))]
    left = sorted(first - last - {*lemons})
    return stayed + [f"{job} left {node}, to which nothing was done" for node in left]
