"""Where the time of a job, or of all, went, as people are told it. Pure.

Used by the routes `goodput`, and by the command line where no driver runs.
"""

from collections.abc import Mapping

from holdfast.driver.adapters.rest.view import View
from holdfast.driver.core.state.model import Incident
from holdfast.driver.people.goodput.account import Account, Cost
from holdfast.driver.people.goodput.fleet import Fleet, Share
from holdfast.driver.people.goodput.pieces import Bucket

UNSEEN = "of some of the time nobody saw a step: whether it trained then is not known"
UNKNOWN = "of some of the time the journal does not tell what it did"
SAYS = {Bucket.UNSEEN: UNSEEN, Bucket.UNKNOWN: UNKNOWN}


class CostView(View):
    """What an incident cost."""

    id: int
    kind: str
    summary: str
    """Empty where the incident is kept no longer."""
    node: str
    """The one that it names; empty where it names none."""
    begin_s: float
    """Driver time at which it began to cost."""
    lost_s: float
    buckets_s: dict[str, float]
    """They add up to `lost_s`."""


class Goodput(View):
    """Where each second of a job went."""

    job: str
    wall_s: float
    """From its submission to its end, or to now."""
    ettr: float | None
    """Effective training time ratio: kept training by the time in which it was to run, at least so
    much where some is not known; null before there was any."""
    lost_s: float
    buckets_s: dict[str, float]
    """Seconds by what they were spent on, which add up to `wall_s`; those that had any."""
    incidents: list[CostView]
    by_kind_s: dict[str, float]
    """Lost by cause: the kind of incident, `first start`, or `no fault`; adds up to `lost_s`."""
    not_known: list[str]
    """What is not known of it, in sentences."""


class ShareView(View):
    """What a kind of fault, or a node, cost."""

    name: str
    lost_s: float
    incidents: int
    jobs: int


class FleetGoodput(View):
    """Where the time of all jobs went; while two run, there are two seconds in one."""

    window_s: float
    """How far back it looks."""
    jobs: int
    wall_s: float
    ettr: float | None
    """As of one job."""
    lost_s: float
    buckets_s: dict[str, float]
    """They add up to `wall_s`."""
    by_kind: list[ShareView]
    """The costliest first; `first start` and `no fault` are no incidents."""
    by_node: list[ShareView]
    """Nodes that incidents name, the costliest first."""
    not_known: list[str]


def goodput_view(account: Account, incidents: Mapping[int, Incident]) -> Goodput:
    return Goodput(
        job=account.job,
        wall_s=account.wall_s,
        ettr=account.ettr,
        lost_s=account.lost_s,
        buckets_s=_named(account.buckets_s),
        incidents=[_cost(cost, incidents.get(cost.incident)) for cost in account.costs],
        by_kind_s=account.by_kind_s,
        not_known=_not_known(account.buckets_s),
    )


def fleet_view(fleet: Fleet, *, window_s: float, most: int) -> FleetGoodput:
    """`most`: kinds and nodes, each."""
    return FleetGoodput(
        window_s=window_s,
        jobs=fleet.jobs,
        wall_s=fleet.wall_s,
        ettr=fleet.ettr,
        lost_s=sum(share.lost_s for share in fleet.by_kind),
        buckets_s=_named(fleet.buckets_s),
        by_kind=[_share(share) for share in fleet.by_kind[:most]],
        by_node=[_share(share) for share in fleet.by_node[:most]],
        not_known=_not_known(fleet.buckets_s),
    )


def _named(buckets_s: Mapping[Bucket, float]) -> dict[str, float]:
    return {bucket.value: took_s for bucket, took_s in buckets_s.items()}


def _not_known(buckets_s: Mapping[Bucket, float]) -> list[str]:
    return [sentence for bucket, sentence in SAYS.items() if bucket in buckets_s]


def _cost(cost: Cost, known: Incident | None) -> CostView:
    return CostView(
        id=cost.incident,
        kind=cost.kind,
        summary=known.summary if known is not None else "",
        node=cost.node,
        begin_s=cost.begin_s,
        lost_s=cost.lost_s,
        buckets_s=_named(cost.buckets_s),
    )


def _share(share: Share) -> ShareView:
    return ShareView(
        name=share.name, lost_s=share.lost_s, incidents=share.incidents, jobs=share.jobs
    )
