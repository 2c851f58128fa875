"""Who may ask: a person's token on everything below /v1alpha1. Nodes have their own, elsewhere.

What the token is good for is not judged here but by `control.people`.
"""

from typing import Annotated

from fastapi import Depends, Query, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from holdfast.driver.adapters.page import safety
from holdfast.driver.adapters.rest import naming
from holdfast.driver.adapters.rest.parameters import NoParameters, given_twice
from holdfast.driver.adapters.rest.problems import Problem, not_found, which
from holdfast.driver.adapters.rest.rights import RIGHTS
from holdfast.driver.people.access import NotAllowed, NotThere, Right, no_token
from holdfast.driver.people.control import Control

PREFIX = "/v1alpha1"

_BEARER = HTTPBearer(auto_error=False, description="The token in the state folder's tokens/user.")


def caller(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]
) -> str:
    """The token of whoever asks, or of the session of a browser that shows the page.

    Raises `Stranger` where there is neither, and `NotAllowed` as `safety` does.
    """
    if given is not None:
        return given.credentials
    if safety.cookie_name(request) not in request.cookies:
        raise no_token()
    return safety.token_for_api(request, request.app.state.sessions)


Caller = Annotated[str, Depends(caller)]
"""What a route declares to be given the token of whoever asks."""


async def person(request: Request, token: Caller) -> None:
    """Raises `Rebuff` or `Problem` unless whoever asks may have what this route gives. A query
    that says two things of one is a `Problem`, too.

    From here on the job in its path is the one that is meant.
    """
    control: Control = request.app.state.control
    route = request.scope["route"].path.removeprefix(PREFIX)
    right = RIGHTS[f"{request.method} {route}"]
    if job := request.path_params.get("job"):
        request.path_params["job"] = await meant(control, token, right, job)
    else:
        asked = request.query_params
        await control.people.check(token, right, asked.get("job") or asked.get("name") or "")
    if twice := given_twice(request.query_params.multi_items()):
        raise Problem(422, "the query is not right.", errors=twice)


async def meant(control: Control, token: str, right: Right, name: str) -> str:
    """The whole name of the one job that is meant, of those for which the person has the right."""
    fits = naming.fitting(name, control.state.jobs)
    if not fits:
        return await _unknown(control, token, right, name)
    if len(fits) > 1:
        fits = [each for each in fits if await _may(control, token, right, each)] or fits[:1]
    if len(fits) > 1:
        raise which(name, fits)
    await control.people.check(token, right, fits[0])
    return fits[0]


async def _unknown(control: Control, token: str, right: Right, name: str) -> str:
    """The name itself: it may be that of an object of which no job was made."""
    try:
        await control.people.check(token, right, name)
    except NotThere as none:
        if await _may(control, token, Right.SEE_JOBS):
            raise not_found("job", name, control.state.jobs) from none
        raise
    return name


async def _may(control: Control, token: str, right: Right, job: str = "") -> bool:
    try:
        await control.people.check(token, right, job)
    except NotAllowed:
        return False
    return True


def _no_parameters(_given: Annotated[NoParameters, Query()]) -> None:
    """FastAPI refuses what is given."""


NO_PARAMETERS = Depends(_no_parameters)
"""What a route depends on whose query must be empty; the others have `Parameters` of their own."""


def _control(request: Request) -> Control:
    control: Control = request.app.state.control
    return control


Driver = Annotated[Control, Depends(_control)]
"""What a route declares to be given the driver."""
