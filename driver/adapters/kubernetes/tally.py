"""What all pods take of their nodes: a copy of the cluster's pods that keeps one sum a node. Pure.

Used by `room`, fed by a `reflector`. Of a pod it keeps its UID, node and share, of which pods that
are alike have one in common: some hundred bytes. Sums are by priority, for a pod takes the room of
those that have less. Must not count our own: who has them says the journal.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from math import inf
from typing import Any, NamedTuple

import msgspec

from holdfast.driver.adapters.kubernetes import names
from holdfast.driver.adapters.kubernetes.requests import PODS, Amounts, PodSpec, request_of
from holdfast.kubeapi.mirror import Mirror, Object

Amount = tuple[tuple[str, int], ...]


class Share(NamedTuple):
    """What is kept of a pod. `takes` is nothing for one that ends, or is ours."""

    uid: str
    node: str
    priority: int
    takes: Amount


class Tally(Mirror):
    """`store` has a `Share` for each pod. `ours`: namespaces whose pods of ours are this driver's;
    None for all.
    """

    def __init__(self, ours: Collection[str] | None) -> None:
        super().__init__()
        self._ours = ours
        self._sums: defaultdict[str, dict[int, Counter[str]]] = defaultdict(dict)
        self._alike: dict[Amount, Amount] = {}
        self._nodes: dict[str, str] = {}

    def used(self, node: str, *, least: float = -inf) -> Amounts:
        """What is taken of the node by pods of this priority or more."""
        total: Counter[str] = Counter()
        for priority, taken in self._sums.get(node, {}).items():
            if priority >= least:
                total.update(taken)
        return dict(total)

    def _keep(self, told: Object) -> Share:
        spec = msgspec.convert(told.get("spec", {}), PodSpec)
        metadata = told["metadata"]
        counts = _lasts(told) and not self._is_ours(metadata)
        takes = tuple(sorted(request_of(spec).items())) if counts else ()
        takes = self._alike.setdefault(takes, takes)
        node = self._nodes.setdefault(spec.node_name, spec.node_name)
        return Share(str(metadata.get("uid", "")), node, spec.priority, takes)

    def _uid(self, kept: Share) -> str:
        return kept.uid

    def _set(self, key: str, kept: Share) -> None:
        if (known := self.store.get(key)) is not None:
            self._count(known, -1)
        self._count(kept, +1)
        super()._set(key, kept)

    def _take(self, key: str) -> Share:
        share: Share = super()._take(key)
        self._count(share, -1)
        return share

    def _count(self, share: Share, sign: int) -> None:
        if not share.takes:
            return
        sums = self._sums[share.node]
        taken = sums.setdefault(share.priority, Counter())
        taken.update(_signed(share.takes, sign))
        if taken[PODS] <= 0:
            del sums[share.priority]
        if not sums:
            del self._sums[share.node]

    def _is_ours(self, metadata: Mapping[str, Any]) -> bool:
        labels = metadata.get("labels") or {}
        made_by_us = labels.get("app.kubernetes.io/managed-by") == names.MANAGER
        return made_by_us and (self._ours is None or metadata.get("namespace") in self._ours)


def _signed(takes: Iterable[tuple[str, int]], sign: int) -> Amounts:
    return {name: sign * amount for name, amount in takes}


def _lasts(pod: Object) -> bool:
    """Whether it is on its node to stay: one that is being deleted leaves it soon."""
    over = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not over and not pod["metadata"].get("deletionTimestamp")
