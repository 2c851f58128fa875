"""The route that makes an address of the page good for a browser."""

from fastapi import APIRouter, Depends, Request
from pydantic import Field

from holdfast.driver.adapters.page.sessions import CODE_S, Sessions
from holdfast.driver.adapters.rest.guard import NO_PARAMETERS, PREFIX, Caller, person
from holdfast.driver.adapters.rest.view import View
from holdfast.driver.people.access import NotAllowed

router = APIRouter(
    prefix=f"{PREFIX}/codes", tags=["page"], dependencies=[Depends(person), NO_PARAMETERS]
)


class CodeView(View):
    """A code for the page, to be shown to nobody else."""

    code: str
    """What follows `?code=` in any address of the page: it is good once, for one browser."""
    path: str
    """The page with it."""
    within_s: float = Field(ge=0)
    """Seconds for which it is good."""


@router.post("", status_code=201)
async def make_code(request: Request, token: Caller) -> CodeView:
    """Make a code with which a browser sees the page, with the rights of your token."""
    if "authorization" not in request.headers:  # it would go on for ever
        raise NotAllowed("a browser's session makes no codes.", fix="Type: holdfast page")
    sessions: Sessions = request.app.state.sessions
    code = sessions.code(token)
    return CodeView(code=code, path=f"/?code={code}", within_s=CODE_S)
