"""The nodes of a state: a mapping of which few differ from another's, and the census of them, by
what is asked of all: kept from one state to the next, so that a look costs what has changed since
the one before. Beside the state, and made anew from any. Pure.

Asked through `Turn.census`. What it answers follows from the nodes alone, whichever it was shown
before: the drafts that were discarded, too. Nodes that something is against for a while only are
looked at each time, for that passes without a change of theirs.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from itertools import compress, count
from operator import is_not
from typing import Generic, TypeVar

from holdfast.driver.core.state.fit import COME_BACK, TOLD, Reason, Use, fit, fits
from holdfast.driver.core.state.model import Job
from holdfast.driver.core.state.node import Free, Node, Returning

V = TypeVar("V")

FEW = 64
"""So many values may differ, or a thirty-second of all; with more a copy costs less in the end."""


class Overlay(Mapping[str, V], Generic[V]):
    """A mapping that differs from another in a few values, made without a copy of all of it.

    Used by `Turn` for the nodes of a state, of which one word changes one of thousands. Its order
    is that of a dict which was copied and written to. What goes out of the core is a dict again:
    `plain`. `put` is for whoever made it, until it is given away. Values are never None.
    """

    __slots__ = ("_added", "_base", "_top", "puts")

    def __init__(self, before: Mapping[str, V]) -> None:
        self._base: Mapping[str, V] = before
        self._top: dict[str, V] = {}
        self._added = 0  # of them those that are new
        self.puts: list[str] = []  # what was put here, one after the other
        if isinstance(before, Overlay) and len(before._top) <= max(FEW, len(before._base) // 32):
            self._base, self._top, self._added = before._base, dict(before._top), before._added
        elif isinstance(before, Overlay):
            self._base = plain(before)

    def over(self, before: Mapping[str, V]) -> Mapping[str, V] | None:
        """What was put over this very mapping; None where it lies over another."""
        return self._top if self._base is before else None

    def put(self, key: str, value: V) -> None:
        if key not in self._top:
            self._added += key not in self._base
        self._top[key] = value
        self.puts.append(key)

    def __getitem__(self, key: str) -> V:
        value = self._top.get(key)
        return self._base[key] if value is None else value

    def get(self, key: str, default: V | None = None) -> V | None:  # type: ignore[override]
        value = self._top.get(key)
        return self._base.get(key, default) if value is None else value

    def __contains__(self, key: object) -> bool:
        return key in self._base or key in self._top

    def __iter__(self) -> Iterator[str]:
        yield from self._base
        if self._added:
            yield from (key for key in self._top if key not in self._base)

    def values(self) -> ValuesView[V]:
        """Of a copy: that is many times quicker than to look each of them up here."""
        return plain(self).values()

    def items(self) -> ItemsView[str, V]:
        """As `values`."""
        return plain(self).items()

    def __len__(self) -> int:
        return len(self._base) + self._added


def layers(mapping: Mapping[str, V]) -> tuple[Mapping[str, V], Mapping[str, V]]:
    """What lies below, and what was put over it: nothing over a dict."""
    return (mapping._base, mapping._top) if isinstance(mapping, Overlay) else (mapping, {})


def plain(mapping: Mapping[str, V]) -> dict[str, V]:
    """The same as a dict; a dict itself where it is one."""
    if isinstance(mapping, dict):
        return mapping
    return {**mapping._base, **mapping._top} if isinstance(mapping, Overlay) else dict(mapping)


MOST_CHANGED = 8
"""Where more than one in so many has changed, all are counted anew: that costs less in the end."""

FreeKey = tuple[bool, str, str]
"""In which order free nodes are given out: those with an executor first, then by rack and name."""
BarredKey = tuple[bool, int, str]
"""In which order it is told why nodes are not to be had: those last that come back by themselves,
else in that of the nodes."""

Key = TypeVar("Key", FreeKey, BarredKey)


class Census:
    """See the module. `of` shows it other nodes; what it answers then is of these."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._shown: Mapping[str, Node] | None = None
        self._puts = 0  # there, so far
        self._base: Mapping[str, Node] | None = None
        self._top: Mapping[str, Node] = {}
        self._numbers = count()
        self._place: dict[str, int] = {}
        self.nodes: dict[str, Node] = {}
        self.known = 0  # that the cluster has had
        self.there = 0  # that are there, or held
        self.away: dict[str, Node] = {}  # all others
        self.evicted: dict[str, Node] = {}  # at some time
        self._passing: dict[str, Node] = {}
        self._free: list[FreeKey] = []
        self._barred: list[BarredKey] = []
        self._coming: dict[str, Node] = {}
        self._had: Counter[str] = Counter()

    def of(self, nodes: Mapping[str, Node]) -> "Census":
        names = self._may_differ(nodes)
        changed = [name for name in names if nodes.get(name) is not self.nodes.get(name)]
        if len(changed) > len(nodes) // MOST_CHANGED:
            self._begin()
            changed = list(nodes)
        for name in changed:
            self._count(name, nodes.get(name))
        self._base, self._top = layers(nodes)
        self._shown, self._puts = nodes, len(nodes.puts) if isinstance(nodes, Overlay) else 0
        return self

    def _may_differ(self, nodes: Mapping[str, Node]) -> Iterable[str]:
        """Names of those that may be others than were counted, those that are new in their order.
        Where those that were there are in another order all are counted anew."""
        if nodes is self._shown:
            return dict.fromkeys(nodes.puts[self._puts :]) if isinstance(nodes, Overlay) else ()
        base, top = layers(nodes)
        if base is self._base:
            return {**dict.fromkeys(self._top), **dict.fromkeys(top)}
        gone = [name for name in self.nodes if name not in base]
        kept = [name for name in self.nodes if name in base] if gone else list(self.nodes)
        if list(base)[: len(kept)] != kept:
            self._begin()
            return nodes
        before = [self.nodes[name] for name in kept] if gone else self.nodes.values()
        others = compress(kept, map(is_not, before, base.values()))
        added = list(base)[len(kept) :]
        return dict.fromkeys([*gone, *others, *added, *top])

    def _count(self, name: str, node: Node | None) -> None:
        before = self.nodes.get(name)
        if before is node:
            return
        if before is not None:
            self._add(before, -1)
        if node is None:
            del self.nodes[name], self._place[name]
            return
        self.nodes[name] = node
        self._place.setdefault(name, next(self._numbers))
        self._add(node, 1)

    def _add(self, node: Node, number: int) -> None:
        """Count it; -1: no longer. All of it follows from the node's value alone."""
        there = node.present or node.job is not None
        self.known += 0 if node.stranger else number
        self.there += number if there else 0
        if not there:
            _keep(self.away, node, number)
        if node.record.evicted_s is not None:
            _keep(self.evicted, node, number)
        if _passes(node):
            _keep(self._passing, node, number)
        elif node.job is not None:
            self._had[node.job] += number if sound(node, 0.0) else 0
        elif not node.stranger:
            self._add_nobodys(node, number)

    def _add_nobodys(self, node: Node, number: int) -> None:
        if (why := why_not(None, node, 0.0)) is not None:
            _sort_in(self._barred, self._barred_key(node, why), number)
        elif isinstance(node.holding, Free):
            _sort_in(self._free, _free_key(node), number)
        if isinstance(node.holding, Returning) and sound(node, 0.0):
            _keep(self._coming, node, number)

    def _barred_key(self, node: Node, why: Reason) -> BarredKey:
        return why.bar in COME_BACK, self._place[node.name], node.name

    # ------------------------------------------------------------ what it answers

    def free(self, now: float) -> list[str]:
        """Nodes that a job may be given, in the order in which they are given out."""
        passing = self._passing.values()
        free = [node for node in passing if isinstance(node.holding, Free)]
        also = [_free_key(node) for node in free if fits(Use.PLACE, None, node, now)]
        keys = sorted([*self._free, *also]) if also else self._free
        return [name for _, _, name in keys]

    def coming(self, now: float) -> list[str]:
        """Nodes on their way back, that may be had then."""
        back = (each for each in self._passing.values() if isinstance(each.holding, Returning))
        return [*self._coming, *(node.name for node in back if sound(node, now))]

    def barred(self, job: Job, now: float, most: int) -> tuple[int, dict[str, Reason]]:
        """How many of those that nobody has are not the job's, and of so many why."""
        own = dict.fromkeys([*self._passing, *(name for name in job.unfit if name in self.nodes)])
        keys = sorted(self._barred_to(job, own, now))
        others = [key for key in self._barred[: most + len(own)] if key[2] not in own]
        number = len(self._barred) - sum(map(self._is_barred, own)) + len(keys)
        first = sorted([*others, *keys])[:most]
        told = ((name, why_not(job, self.nodes[name], now)) for _, _, name in first)
        return number, {name: why for name, why in told if why is not None}

    def _barred_to(self, job: Job, names: Iterable[str], now: float) -> Iterator[BarredKey]:
        for node in map(self.nodes.__getitem__, names):
            nobodys = node.job is None and not node.stranger
            if nobodys and (why := why_not(job, node, now)) is not None:
                yield self._barred_key(node, why)

    def _is_barred(self, name: str) -> bool:
        node = self.nodes[name]
        if name in self._passing or node.job is not None or node.stranger:
            return False
        return why_not(None, node, 0.0) is not None

    def owners(self, job: Job, jobs: Sequence[str], now: float) -> Counter[str]:
        """Of these jobs, who has how many of the nodes that the job could have."""
        owners = Counter({name: self._had[name] for name in jobs if self._had[name]})
        for node in self._passing.values():
            if node.job is not None and _could_have(job, node, now):
                owners[node.job] += 1
        for node in (self.nodes[name] for name in job.unfit if name in self.nodes):
            lacks = sound(node, now) and not _could_have(job, node, now)
            if node.job is not None and lacks and not _passes(node):
                owners[node.job] -= 1
        return +owners


def sound(node: Node, now: float) -> bool:
    """True where nothing is known against its use, whoever has it now."""
    return fits(Use.BORROW, None, node, now)


def _could_have(job: Job, node: Node, now: float) -> bool:
    unfit = node.name in job.unfit and not fits(Use.BORROW, job, node, now)
    return sound(node, now) and not unfit


def why_not(job: Job | None, node: Node, now: float) -> Reason | None:
    """Why a node that nobody has is not the job's; what passes by itself only where that is all."""
    if fits(Use.PLACE, job, node, now):
        return None
    reasons = [each for each in fit(Use.PLACE, job, node, now) if each.bar in TOLD]
    return min(reasons, key=lambda each: each.bar in COME_BACK, default=None)


def _passes(node: Node) -> bool:
    """Whether something against it is over by itself."""
    return bool(node.against) and any(why.until_s is not None for why in node.against.values())


def _free_key(node: Node) -> FreeKey:
    return not node.connected, node.rack, node.name


def _keep(kept: dict[str, Node], node: Node, number: int) -> None:
    if number > 0:
        kept[node.name] = node
    else:
        del kept[node.name]


def _sort_in(keys: list[Key], key: Key, number: int) -> None:
    if number > 0:
        insort(keys, key)
    else:
        del keys[bisect_left(keys, key)]
