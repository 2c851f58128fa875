"""What all jobs of a window of time lost, and to what: kinds of faults, and nodes. Pure.

Seconds are those of jobs: while two run, there are two in a second.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import field

from holdfast.driver.core.state.model import Incident
from holdfast.driver.core.state.value import Value
from holdfast.driver.people.goodput.account import Account, clipped, ettr, summed
from holdfast.driver.people.goodput.pieces import Bucket, Piece

Lost = tuple[str, float, int | None, str]
"""To what, how long, in which incident, of which job."""


class Share(Value, frozen=True):
    """What one kind of fault, or one node, cost; in how many incidents, of how many jobs."""

    name: str
    lost_s: float
    incidents: int
    jobs: int


class Fleet(Value, frozen=True):
    """`buckets_s` add up to `wall_s`. The costliest kinds and nodes come first."""

    jobs: int
    wall_s: float
    buckets_s: dict[Bucket, float]
    by_kind: tuple[Share, ...] = field(default=())
    by_node: tuple[Share, ...] = field(default=())

    @property
    def ettr(self) -> float | None:
        return ettr(self.buckets_s)


def fleet_of(
    lives: Iterable[tuple[str, Sequence[Piece]]],
    incidents: Mapping[int, Incident],
    *,
    since_s: float,
) -> Fleet:
    """`lives`: the pieces of each job. `since_s`: driver seconds, before which nothing counts."""
    cut = ((job, clipped(pieces, begin_s=since_s)) for job, pieces in lives)
    accounts = [summed(job, pieces, incidents) for job, pieces in cut if pieces]
    total: dict[Bucket, float] = {}
    for account in accounts:
        for bucket, took_s in account.buckets_s.items():
            total[bucket] = total.get(bucket, 0.0) + took_s
    return Fleet(
        jobs=len(accounts),
        wall_s=sum(account.wall_s for account in accounts),
        buckets_s={bucket: total[bucket] for bucket in Bucket if bucket in total},
        by_kind=_shares(lost for account in accounts for lost in _by_kind(account)),
        by_node=_shares(lost for account in accounts for lost in _by_node(account)),
    )


def _by_kind(account: Account) -> Iterable[Lost]:
    """Of what no incident caused there is only the sum."""
    kinds = {cost.kind for cost in account.costs}
    for cost in account.costs:
        yield cost.kind, cost.lost_s, cost.incident, account.job
    for cause, lost_s in account.by_kind_s.items():
        if cause not in kinds:
            yield cause, lost_s, None, account.job


def _by_node(account: Account) -> Iterable[Lost]:
    for cost in account.costs:
        if cost.node:
            yield cost.node, cost.lost_s, cost.incident, account.job


def _shares(lost: Iterable[Lost]) -> tuple[Share, ...]:
    by: dict[str, list[Lost]] = {}
    for each in lost:
        by.setdefault(each[0], []).append(each)
    shares = [_share(name, own) for name, own in by.items()]
    return tuple(sorted(shares, key=lambda share: (-share.lost_s, share.name)))


def _share(name: str, lost: Sequence[Lost]) -> Share:
    return Share(
        name=name,
        lost_s=sum(lost_s for _, lost_s, _, _ in lost),
        incidents=len({incident for _, _, incident, _ in lost if incident is not None}),
        jobs=len({job for _, _, _, job in lost}),
    )
