"""The route that tells whom most is held against."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from holdfast.driver.adapters.rest.guard import PREFIX, Driver, person
from holdfast.driver.adapters.rest.parameters import Parameters
from holdfast.driver.adapters.rest.worst import Worst, worst_of

router = APIRouter(prefix=f"{PREFIX}/evidence", tags=["evidence"], dependencies=[Depends(person)])

DEFAULT_LIMIT, MAX_LIMIT = 10, 500


class WorstParameters(Parameters):
    """How many."""

    limit: int = Field(
        default=DEFAULT_LIMIT,
        ge=1,
        le=MAX_LIMIT,
        description="Most nodes, links and versions, each.",
    )


@router.get("")
async def worst(control: Driver, asked: Annotated[WorstParameters, Query()]) -> Worst:
    """The nodes, links and versions of jobs against which most is held, the worst first."""
    return worst_of(control.state, now=control.now(), most=asked.limit)
