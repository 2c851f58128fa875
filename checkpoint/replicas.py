"""What ranks declared to hold alike, by checksums: who holds other bytes than all others. Pure.

Asked at the commit, where the checksums of all ranks meet. Only what a script declared is compared:
what it did not (generators, statistics of a batch norm) may differ on a healthy job.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from holdfast.protocol.messages import Unlike

LEAST_ALIKE = 2
"""So many others have to agree before one is named: of two that differ nobody knows which is right.
"""


class Holder(Protocol):
    """What a rank tells of its part."""

    @property
    def rank(self) -> int: ...
    @property
    def elsewhere(self) -> Mapping[str, int]: ...
    @property
    def replicas(self) -> Mapping[str, str]: ...


class Group(msgspec.Struct, frozen=True):
    """Ranks that should hold the same bytes of a tensor: checksums by rank, the writer's first."""

    tensor: str
    digests: dict[int, str]

    @property
    def differs(self) -> bool:
        return len({*self.digests.values()}) > 1

    @property
    def odd(self) -> int | None:
        """The only one whose bytes are not those of all others; None: nobody can say who it is."""
        [(most, alike), *_] = Counter(self.digests.values()).most_common()
        others = [rank for rank, digest in self.digests.items() if digest != most]
        known = alike >= LEAST_ALIKE and len(others) == 1 and all(self.digests.values())
        return others[0] if known else None


def differing(parts: Sequence[Holder]) -> list[Group]:
    """The groups that do not hold the same; `parts` by rank."""
    found: dict[tuple[str, int], dict[int, str]] = {}
    for part in parts:
        for name, writer in part.elsewhere.items():
            if name in part.replicas:
                own = {writer: parts[writer].replicas.get(name, "")}
                found.setdefault((name, writer), own)[part.rank] = part.replicas[name]
    groups = (Group(name, digests) for (name, _), digests in found.items())
    return [group for group in groups if group.differs]


def alike(parts: Iterable[Holder]) -> frozenset[str]:
    """The tensors that were compared, of parts that do not differ."""
    return frozenset(name for part in parts for name in part.replicas)


def unlike(
    groups: Sequence[Group], *, step: int, before: Collection[str], since: int
) -> Unlike | None:
    """What is to be told of ranks that differ; None where that is no fault of theirs, as far as is
    known. `before`: what all held alike at step `since`: a tensor that never was the same is
    declared wrongly. Nor does one fault make several of three or more differ.
    """
    if not groups or any(group.tensor not in before for group in groups):
        return None
    first, odd = groups[0], {group.odd for group in groups}
    if len(odd) > 1 or (None in odd and len(first.digests) > LEAST_ALIKE):
        return None
    return Unlike(
        step=step,
        since=since,
        tensor=first.tensor,
        tensors=len({group.tensor for group in groups}),
        ranks=tuple(sorted(first.digests)),
        odd=odd.pop(),
    )
