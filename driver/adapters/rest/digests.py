"""Route of the digest: what happened lately, in figures."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from holdfast.driver.adapters.rest.costs import FleetGoodput
from holdfast.driver.adapters.rest.goodput import DEFAULT_LIMIT, MAX_SINCE_S, fleet_goodput
from holdfast.driver.adapters.rest.guard import PREFIX, Driver, person
from holdfast.driver.adapters.rest.parameters import Parameters
from holdfast.driver.adapters.rest.view import View
from holdfast.driver.core.state.model import State
from holdfast.driver.people.digest import digest

router = APIRouter(prefix=PREFIX, tags=["incidents"], dependencies=[Depends(person)])

WEEK_S = 604_800.0
MOST_S = 366 * 86_400.0


class CostlyKindView(View):
    """Faults of one kind."""

    kind: str
    incidents: int
    faults: int
    lost_s: float
    """Until jobs trained on; what has not come back yet counts nothing."""


class CostlyNodeView(View):
    """A node that had part in faults."""

    node: str
    incidents: int
    evicted: int
    lost_s: float


class DigestView(View):
    """What happened in the last `since_s` seconds."""

    since_s: float
    submitted: int
    by_phase: dict[str, int]
    """Jobs that ran or ended in that time, by the phase that they have now."""
    faults: int
    lost_s: float
    """To all incidents, those that a person asked for among them."""
    steps_lost: int
    kinds: list[CostlyKindView]
    """What cost most first."""
    nodes: list[CostlyNodeView]
    """At most ten, what cost most first."""
    open: list[int]
    """Numbers of the incidents that are not over."""
    goodput: FleetGoodput
    """Where the time of jobs went meanwhile; of a longer time than a quarter, in the last one."""
    whole: bool
    """No incident of that time may have been forgotten: the driver keeps the latest alone."""


class DigestParameters(Parameters):
    """Of the digest."""

    since_s: float = Field(default=WEEK_S, ge=1, le=MOST_S, description="Of the last seconds.")


@router.get("/digest")
def get_digest(control: Driver, asked: Annotated[DigestParameters, Query()]) -> DigestView:
    """Jobs, faults by kind, and the nodes that cost most, of the last week or another time."""
    goodput = fleet_goodput(control, min(asked.since_s, MAX_SINCE_S), most=DEFAULT_LIMIT)
    return digest_view(control.state, goodput, now=control.now(), since_s=asked.since_s)


def digest_view(state: State, goodput: FleetGoodput, *, now: float, since_s: float) -> DigestView:
    found = digest(state, now=now, since_s=since_s)
    return DigestView(
        since_s=since_s,
        **found.jobs._asdict(),
        kinds=[CostlyKindView(**each._asdict()) for each in found.kinds],
        nodes=[CostlyNodeView(**each._asdict()) for each in found.nodes],
        open=found.open,
        goodput=goodput,
        whole=found.whole,
    )
