"""Routes about the brake on eviction: whether it is on and why, apply, release."""

from fastapi import APIRouter, Depends, Request

from holdfast.driver.adapters.rest.asking import Done, IdempotencyKey, ask, key_of
from holdfast.driver.adapters.rest.body import read_reason
from holdfast.driver.adapters.rest.guard import NO_PARAMETERS, PREFIX, Driver, person
from holdfast.driver.adapters.rest.nodes import PERSON
from holdfast.driver.adapters.rest.views import BrakeView, brake_view
from holdfast.driver.core import events

NAME = "brake"

router = APIRouter(
    prefix=f"{PREFIX}/brake", tags=["brake"], dependencies=[Depends(person), NO_PARAMETERS]
)


@router.get("")
async def get_brake(control: Driver) -> BrakeView:
    """Whether nodes are evicted by themselves, and why not."""
    return brake_view(control.state, dry_run=control.settings.dry_run_evictions)


@router.post("/apply", status_code=202)
async def apply(request: Request, control: Driver, key: IdempotencyKey = None) -> Done:
    """Have no node evicted any more but by people."""
    reason = await read_reason(request)
    event = events.BrakeApplyRequested(reason=reason, by=PERSON)
    return await ask(control, NAME, event, key=key_of(key, "brake-apply", reason))


@router.post("/release", status_code=202)
async def release(request: Request, control: Driver, key: IdempotencyKey = None) -> Done:
    """Have bad nodes evicted again. What was evicted until now counts no more."""
    reason = await read_reason(request)
    event = events.BrakeReleaseRequested(reason=reason, by=PERSON)
    return await ask(control, NAME, event, key=key_of(key, "brake-release", reason))
