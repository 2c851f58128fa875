"""Who may ask: a person's token on everything below /v1alpha1. Nodes have their own, elsewhere."""

from typing import Annotated

from fastapi import Depends, Query, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from holdfast.driver.adapters.rest.parameters import NoParameters
from holdfast.driver.adapters.rest.problems import Problem
from holdfast.driver.control import Control

_BEARER = HTTPBearer(auto_error=False, description="The token in the state folder's tokens/user.")


def person(
    request: Request,
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
) -> None:
    """Raises `Problem` (401) unless the request has the token for people."""
    control: Control = request.app.state.control
    if given is None or not control.tokens.is_user(given.credentials):
        raise no_person(sent=given is not None)


def no_person(*, sent: bool) -> Problem:
    """401: a token was sent that is not ours, or none was sent."""
    why = "the token is not the one of this driver." if sent else "no token was sent."
    fix = "Send `Authorization: Bearer TOKEN`; TOKEN is in tokens/user of the state folder."
    return Problem(401, why, fix=fix)


def own_jobs(request: Request) -> None:
    """Raises `Problem` (409) where jobs are objects of Kubernetes, which would undo the request."""
    control: Control = request.app.state.control
    if control.settings.cluster == "kubernetes":
        raise Problem(
            409,
            "this driver's jobs are TrainingJob objects, and follow them.",
            fix="Use kubectl: apply or delete the object, or patch its spec.suspend.",
        )


def _no_parameters(_given: Annotated[NoParameters, Query()]) -> None:
    """FastAPI refuses what is given."""


NO_PARAMETERS = Depends(_no_parameters)
"""What a route depends on whose query must be empty; the others have `Parameters` of their own."""


def _control(request: Request) -> Control:
    control: Control = request.app.state.control
    return control


Driver = Annotated[Control, Depends(_control)]
"""What a route declares to be given the driver."""
