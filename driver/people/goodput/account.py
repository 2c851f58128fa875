"""A job's time, summed up: by bucket, by incident, and by what was the cause. Pure.

ETTR, the effective training time ratio, is the share of the time in which a job was to run that
was training and was kept. As Meta defines it ("Revisiting Reliability in Large-Scale Machine
Learning Research Clusters", HPCA 2025, arXiv 2410.21680): productive time by wall time, where
queueing, restarts, and what is done again since the last checkpoint are not productive. What a
person suspends is no time in which it was to run.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import field
from msgspec.structs import replace

from holdfast.driver.core.state.model import Incident, Job
from holdfast.driver.core.state.value import Value
from holdfast.driver.noted import What, doing_of
from holdfast.driver.people.goodput.marks import Life
from holdfast.driver.people.goodput.pieces import Bucket, Piece, pieces_of

STARTED, NO_FAULT = "first start", "no fault"
"""What no incident is the cause of: how it began, and what came since of no fault (going on after a
suspension, leaving a node that is to be free, the end)."""

GOOD = frozenset({Bucket.KEPT, Bucket.SUSPENDED})
NOT_KNOWN = frozenset({Bucket.UNSEEN, Bucket.UNKNOWN})


class Cost(Value, frozen=True):
    """What one incident cost a job. `begin_s`: driver seconds."""

    incident: int
    begin_s: float
    kind: str
    node: str
    buckets_s: dict[Bucket, float]

    @property
    def lost_s(self) -> float:
        return sum(self.buckets_s.values())


class Account(Value, frozen=True):
    """`buckets_s` add up to `wall_s`; `by_kind_s` to all of it that was lost."""

    job: str
    wall_s: float
    buckets_s: dict[Bucket, float]
    costs: tuple[Cost, ...] = ()
    by_kind_s: dict[str, float] = field(default_factory=dict)

    @property
    def ettr(self) -> float | None:
        """At least so much, where some of the time is not known; None of a job that was not to run
        yet."""
        return ettr(self.buckets_s)

    @property
    def lost_s(self) -> float:
        return sum(self.by_kind_s.values())


def ettr(buckets_s: Mapping[Bucket, float]) -> float | None:
    """Of any sum of buckets."""
    wanted_s = sum(buckets_s.values()) - buckets_s.get(Bucket.SUSPENDED, 0.0)
    return buckets_s.get(Bucket.KEPT, 0.0) / wanted_s if wanted_s > 0.0 else None


def known_pieces(
    life: Life | None, job: Job, incidents: Mapping[int, Incident], *, now: float
) -> list[Piece]:
    """All of the job's time. `life`: what the journal has of it; None: nothing. Where that does not
    end with what the job does now, not all was written down: since the last of it nothing is known.
    """
    end_s = job.since_s if job.finished else max(now, job.submitted_s)
    if life is None:
        return clipped([Piece(begin_s=job.submitted_s, end_s=end_s, bucket=Bucket.UNKNOWN)])
    pieces, last = pieces_of(life, now=end_s, begun_s=job.submitted_s), life.marks[-1]
    if _is(last.doing.what, last.doing.attempt, job, incidents):
        return pieces
    unknown = Piece(begin_s=last.at_s, end_s=end_s, bucket=Bucket.UNKNOWN)
    return [*clipped(pieces, end_s=last.at_s), *clipped([unknown])]


def _is(what: What, attempt: int, job: Job, incidents: Mapping[int, Incident]) -> bool:
    """Whether it is what the job does now."""
    now = doing_of(job, incidents.get(job.incident or job.repeating or 0))
    return what is now.what and attempt == now.attempt


def clipped(
    pieces: Iterable[Piece], *, begin_s: float = float("-inf"), end_s: float = float("inf")
) -> list[Piece]:
    """What of them is between the two moments."""
    cut = (
        replace(piece, begin_s=max(piece.begin_s, begin_s), end_s=min(piece.end_s, end_s))
        for piece in pieces
    )
    return [piece for piece in cut if piece.took_s > 0.0]


def summed(job: str, pieces: Sequence[Piece], incidents: Mapping[int, Incident] = {}) -> Account:
    """`incidents`: those that the state has, which are known better by now than they were then."""
    costs = _costs(pieces, incidents)
    kinds = {cost.incident: cost.kind for cost in costs}
    by_kind_s: dict[str, float] = {}
    trained = False
    for piece in pieces:
        trained = trained or piece.bucket is Bucket.KEPT
        if piece.bucket not in GOOD | NOT_KNOWN:
            other = NO_FAULT if trained else STARTED
            cause = other if piece.incident is None else kinds[piece.incident]
            by_kind_s[cause] = by_kind_s.get(cause, 0.0) + piece.took_s
    return Account(
        job=job,
        wall_s=pieces[-1].end_s - pieces[0].begin_s if pieces else 0.0,
        buckets_s=buckets_of(pieces),
        costs=costs,
        by_kind_s=by_kind_s,
    )


def buckets_of(pieces: Iterable[Piece]) -> dict[Bucket, float]:
    """Only those that took any time, in the order in which they are told."""
    took: dict[Bucket, float] = {}
    for piece in pieces:
        took[piece.bucket] = took.get(piece.bucket, 0.0) + piece.took_s
    return {bucket: took[bucket] for bucket in Bucket if bucket in took}


def _costs(pieces: Sequence[Piece], incidents: Mapping[int, Incident]) -> tuple[Cost, ...]:
    by: dict[int, list[Piece]] = {}
    for piece in pieces:
        if piece.incident is not None:
            by.setdefault(piece.incident, []).append(piece)
    return tuple(_cost(number, own, incidents.get(number)) for number, own in sorted(by.items()))


def _cost(number: int, pieces: Sequence[Piece], known: Incident | None) -> Cost:
    return Cost(
        incident=number,
        begin_s=pieces[0].begin_s,
        kind=known.kind.value if known is not None else pieces[-1].kind,
        node=(known.node or "") if known is not None else pieces[-1].node,
        buckets_s=buckets_of(pieces),
    )
