"""Who may ask: a person's token on everything below /v1alpha1. Nodes have their own, elsewhere.

What the token is good for is not judged here but by `control.people`.
"""

from typing import Annotated

from fastapi import Depends, Query, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from holdfast.driver.adapters.rest.parameters import NoParameters
from holdfast.driver.adapters.rest.rights import RIGHTS
from holdfast.driver.control import Control
from holdfast.driver.people import no_token

PREFIX = "/v1alpha1"

_BEARER = HTTPBearer(auto_error=False, description="The token in the state folder's tokens/user.")


def caller(given: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]) -> str:
    """The token of whoever asks. Raises `Stranger` where none was sent."""
    if given is None:
        raise no_token()
    return given.credentials


Caller = Annotated[str, Depends(caller)]
"""What a route declares to be given the token of whoever asks."""


async def person(request: Request, token: Caller) -> None:
    """Raises `Rebuff` unless whoever asks may have what this route gives."""
    control: Control = request.app.state.control
    route = request.scope["route"].path.removeprefix(PREFIX)
    right = RIGHTS[f"{request.method} {route}"]
    await control.people.check(token, right, _which(request))


def _which(request: Request) -> str:
    """The job, or the jobs, that are asked about; "" for all, or none."""
    asked = request.query_params
    return request.path_params.get("job") or asked.get("job") or asked.get("name") or ""


def _no_parameters(_given: Annotated[NoParameters, Query()]) -> None:
    """FastAPI refuses what is given."""


NO_PARAMETERS = Depends(_no_parameters)
"""What a route depends on whose query must be empty; the others have `Parameters` of their own."""


def _control(request: Request) -> Control:
    control: Control = request.app.state.control
    return control


Driver = Annotated[Control, Depends(_control)]
"""What a route declares to be given the driver."""
