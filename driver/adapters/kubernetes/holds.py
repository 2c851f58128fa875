"""Nodes that jobs were given, and which slot of its job each of them is.

Used by `cluster` and `placing`. Must not know whether a pod is there.
"""

from collections import Counter, defaultdict
from itertools import count
from typing import Any, NamedTuple

from holdfast.driver.adapters.kubernetes import names, pods

Object = dict[str, Any]


class Hold(NamedTuple):
    """A node that a job was given."""

    job: str  # as the core calls it
    owner: str  # UID of its TrainingJob
    slot: int


class Holds:
    """One hold of a node at a time."""

    def __init__(self) -> None:
        self._by_node: dict[str, Hold] = {}
        self._slots: defaultdict[str, Counter[int]] = defaultdict(Counter)  # by owner

    def __contains__(self, node: str) -> bool:
        return node in self._by_node

    def get(self, node: str) -> Hold | None:
        return self._by_node.get(node)

    def put(self, node: str, hold: Hold) -> None:
        """In the place of another, if there is one."""
        self.drop(node)
        self._by_node[node] = hold
        self._slots[hold.owner][hold.slot] += 1

    def drop(self, node: str) -> None:
        """Nobody holds the node."""
        if (hold := self._by_node.pop(node, None)) is None:
            return
        slots = self._slots[hold.owner]
        slots[hold.slot] -= 1
        if not slots[hold.slot]:
            del slots[hold.slot]
        if not slots:
            del self._slots[hold.owner]

    def lowest_slot(self, owner: str) -> int:
        """Of the job with this UID, the lowest that no node has."""
        taken = self._slots.get(owner, ())
        return next(slot for slot in count() if slot not in taken)


def hold_of(pod: Object, job: str) -> Hold:
    """The hold of a pod that was made for the core's `job`."""
    return Hold(job, pods.owner_uid(pod), pods.number(pod, names.SLOT))


def wanted(hold: Hold, owner: Object | None) -> bool:
    """Whether the hold's job is still to run, by the object that has its name now."""
    return owner is not None and owner["metadata"]["uid"] == hold.owner and not pods.ending(owner)


def stray(pod: Object, job: str, owner: Object | None, held_by: str) -> bool:
    """Whether nobody wants the pod on its node, which is held by the pod with the UID `held_by`, ""
    for none. `job` is "" for an exam's. One whose TrainingJob is gone goes with that, by and by.
    """
    goes = bool(job) and not wanted(hold_of(pod, job), owner)
    return not goes and bool(pod["metadata"]["uid"] != held_by)
