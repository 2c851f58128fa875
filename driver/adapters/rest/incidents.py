"""Routes about incidents: what went wrong, one cause each, and what became of it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from holdfast.driver.adapters.rest.guard import NO_PARAMETERS, PREFIX, Driver, person
from holdfast.driver.adapters.rest.parameters import JobParameter
from holdfast.driver.adapters.rest.problems import not_found
from holdfast.driver.adapters.rest.views import IncidentList, IncidentView, incident_view
from holdfast.driver.people import job_lives

router = APIRouter(prefix=f"{PREFIX}/incidents", tags=["incidents"], dependencies=[Depends(person)])


@router.get("")
async def list_incidents(control: Driver, asked: Annotated[JobParameter, Query()]) -> IncidentList:
    """Open incidents and the latest of the rest, oldest first."""
    known = control.state.incidents
    found = [known[number] for number in sorted(known)]
    about = found if asked.job is None else job_lives.incidents_of(control.state, asked.job)
    return IncidentList(items=[incident_view(each) for each in about])


@router.get("/{number}", dependencies=[NO_PARAMETERS])
async def get_incident(number: int, control: Driver) -> IncidentView:
    """One incident with its evidence and the stacks that were taken."""
    incidents = control.state.incidents
    if number not in incidents:
        raise not_found("incident", str(number), map(str, sorted(incidents)))
    return incident_view(incidents[number])
