"""How often the groups of a job ask the store, counted on clients that do what gloo does.

Used by `benchmark` and tests. gloo itself, in threads of one process, is counted by the tests, so
that what is done here is what it does.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import HashStore, PrefixStore, Store

from holdfast.protocol.topology import Axis, Topology
from holdfast.rendezvous.one_trip import OneTrip

TENSOR, PIPELINE = 8, 4
"""Sizes in every count; the data-parallel one is what is left."""
ASKING = 64
"""Ranks that ask: all 4,096 would do so 33 million times."""


class CountingStore(Store):
    """Passes on what it is asked, and counts how often."""

    timeout: timedelta

    def __init__(self, inner: Any, counts: Counter[str]) -> None:
        super().__init__()
        self._inner, self._counts = inner, counts

    def set(self, key: str, value: str | bytes) -> None:
        self._counts["set"] += 1
        self._inner.set(key, value)

    def get(self, key: str) -> bytes:
        self._counts["get"] += 1
        return bytes(self._inner.get(key))

    def add(self, key: str, amount: int) -> int:
        self._counts["add"] += 1
        return int(self._inner.add(key, amount))

    def check(self, keys: Sequence[str]) -> bool:
        self._counts["check"] += 1
        return bool(self._inner.check(list(keys)))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        self._counts["wait"] += 1
        self._inner.wait(list(keys), timeout or self.timeout)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        self._counts["multi_get"] += 1
        return [bytes(value) for value in self._inner.multi_get(list(keys))]

    def has_extended_api(self) -> bool:
        return True


def groups(ranks: int) -> Iterator[tuple[int, ...]]:
    """All groups of a job: the world, and those along each axis."""
    topology = Topology(tp=TENSOR, pp=PIPELINE, dp=ranks // (TENSOR * PIPELINE))
    for axes in (tuple(Axis), *((axis,) for axis in Axis)):
        yield from topology.groups(*axes)


def operations(ranks: int, wrapped: bool) -> float:
    """Operations a rank for all its groups; `wrapped`: as under Holdfast. All ranks say their
    addresses; where there are many, `ASKING` of them ask, each of which asks the same."""
    counts: Counter[str] = Counter()
    shared = HashStore()
    counting = CountingStore(shared, counts)
    asking = set(range(0, ranks, max(1, ranks // ASKING)))
    asks = []
    for group in groups(ranks):
        for rank in group:
            ask = _member(counting if rank in asking else shared, rank, group, wrapped)
            asks += [ask] if rank in asking else []
    for ask in asks:  # by now each has said its address
        ask()
    return counts.total() / len(asking)


def _member(store: Store, rank: int, group: tuple[int, ...], wrapped: bool) -> Callable[[], None]:
    """One that has said its address, and what it does then."""
    named = PrefixStore(f"{group[:2]}-{len(group)}", store)
    mine: Any = OneTrip(named, len(group)) if wrapped else named
    mine.set(f"0/{group.index(rank)}", b"address")

    def ask() -> None:
        for member in range(len(group)):
            mine.wait([f"0/{member}"])
            mine.get(f"0/{member}")

    return ask
