"""Routes that tell where the time went: of one job, and of all.

They read the journal, so each runs in a thread of its own.
"""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from holdfast.driver.adapters.rest.costs import FleetGoodput, Goodput, fleet_view, goodput_view
from holdfast.driver.adapters.rest.guard import NO_PARAMETERS, PREFIX, Driver, person
from holdfast.driver.adapters.rest.jobs import job_of
from holdfast.driver.adapters.rest.parameters import Parameters

router = APIRouter(prefix=PREFIX, tags=["goodput"], dependencies=[Depends(person)])

DEFAULT_SINCE_S, MAX_SINCE_S = 30 * 86_400.0, 92 * 86_400.0
"""A month; a quarter, for so long a ledger keeps jobs that were deleted."""
DEFAULT_LIMIT, MAX_LIMIT = 10, 500


class FleetParameters(Parameters):
    """Of which time, and how much of it."""

    since_s: float = Field(
        default=DEFAULT_SINCE_S, gt=0, le=MAX_SINCE_S, description="How far back, in seconds."
    )
    limit: int = Field(
        default=DEFAULT_LIMIT, ge=1, le=MAX_LIMIT, description="Most kinds and nodes, each."
    )


@router.get("/jobs/{job}/goodput", dependencies=[NO_PARAMETERS])
def goodput_of_job(job: str, control: Driver) -> Goodput:
    """Where each second of the job went, by what it was spent on, by incident and by cause."""
    state, now = control.state, control.now()
    found = job_of(control, job)
    account = control.ledger.account(control.journal, state, found, now=now)
    return goodput_view(account, state.incidents)


@router.get("/goodput")
def goodput_of_all(control: Driver, asked: Annotated[FleetParameters, Query()]) -> FleetGoodput:
    """Where the time of all jobs went: which kinds of faults, and which nodes, cost most."""
    return fleet_goodput(control, asked.since_s, most=asked.limit)


def fleet_goodput(control: Driver, window_s: float, *, most: int) -> FleetGoodput:
    """Of all jobs since then. Raises `TemporaryError` where the journal cannot be read."""
    now, ledger = control.now(), control.ledger
    fleet = ledger.fleet(control.journal, control.state, now=now, since_s=now - window_s)
    return fleet_view(fleet, window_s=window_s, most=most)
