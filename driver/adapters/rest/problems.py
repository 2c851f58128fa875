"""Errors as problems (RFC 9457): one sentence, what to do, and every mistake with its field.

Raised by the routers; turned into answers by the handlers that `app.make_app` installs.
"""

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from holdfast.driver.adapters.rest import naming
from holdfast.driver.people.access import InTheWay, NotAllowed, NotThere, Rebuff, Stranger, Wrong
from holdfast.driver.ports import TemporaryError
from holdfast.protocol.mistakes import BadDocument, Mistake, in_our_words

MEDIA_TYPE = "application/problem+json"


class MistakeView(BaseModel):
    """One mistake."""

    field: str
    value: str
    why: str
    fix: str


class ProblemView(BaseModel):
    """A problem (RFC 9457) with two members of our own: `fix` and `errors`."""

    type: str
    title: str
    status: int
    detail: str
    fix: str
    instance: str
    errors: list[MistakeView]


class Problem(Exception):
    """An answer that is not what was asked for."""

    def __init__(
        self, status: int, detail: str, *, fix: str = "", errors: Iterable[Mistake] = ()
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.fix = fix
        self.errors = tuple(errors)

    def body(self, instance: str) -> dict[str, Any]:
        """Members of RFC 9457, and two of our own: `fix` and `errors`."""
        return {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "fix": self.fix,
            "instance": instance,
            "errors": [msgspec.to_builtins(error) for error in self.errors],
        }


def not_found(kind: str, name: str, known: Iterable[str]) -> Problem:
    """404 that says what there is instead."""
    return Problem(404, naming.none_of(kind, name), fix=naming.instead(kind, name, known))


def which(name: str, jobs: list[str]) -> Problem:
    """409: the name may be that of several jobs."""
    why, fix = naming.several(name, jobs)
    return Problem(409, why, fix=fix)


def of_mistakes(error: BadDocument) -> Problem:
    """422 with every mistake in a document."""
    count, first = len(error.mistakes) + error.more, ""
    if error.more:
        first = f", of which these are the first {len(error.mistakes)}: {error.more:,} more"
    detail = f"{count:,} mistake{'' if count == 1 else 's'}{first}; nothing was changed."
    return Problem(422, detail, errors=error.mistakes)


_STATUS: dict[type[Rebuff], int] = {
    Stranger: 401,
    NotAllowed: 403,
    NotThere: 404,
    InTheWay: 409,
    Wrong: 422,
}


def of_rebuff(error: Rebuff) -> Problem:
    """What a person may not have, or not so."""
    return Problem(_STATUS[type(error)], str(error), fix=error.fix)


def bad_query(errors: Sequence[Mapping[str, Any]], known: Sequence[str]) -> Problem:
    """422 with every mistake in query, headers or path; `known`: what the query may have."""
    mistakes = [in_our_words({**each, "loc": each["loc"][1:]}, known) for each in errors]
    return Problem(422, "the query is not right.", errors=mistakes)


def install(app: FastAPI) -> None:
    """Have every error of `app` answered as a problem."""
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(BadDocument, _bad_document)
    app.add_exception_handler(TemporaryError, _temporary)
    app.add_exception_handler(Rebuff, _rebuff)
    app.add_exception_handler(RequestValidationError, _bad_query)
    app.add_exception_handler(HTTPException, _http)


def answer(
    request: Request, problem: Problem, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    return JSONResponse(
        problem.body(request.url.path),
        status_code=problem.status,
        media_type=MEDIA_TYPE,
        headers=dict(headers or {}),
    )


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    headers = {
        401: {"WWW-Authenticate": "Bearer"},
        429: {"Retry-After": "1"},
        503: {"Retry-After": "5"},
    }
    return answer(request, error, headers.get(error.status))


async def _bad_document(request: Request, error: Exception) -> Response:
    assert isinstance(error, BadDocument)
    return answer(request, of_mistakes(error))


async def _temporary(request: Request, error: Exception) -> Response:
    return await _problem(request, Problem(503, str(error), fix="Try again later."))


async def _rebuff(request: Request, error: Exception) -> Response:
    assert isinstance(error, Rebuff)
    return await _problem(request, of_rebuff(error))


async def _bad_query(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return answer(request, bad_query(error.errors(), _known(request)))


def _known(request: Request) -> list[str]:
    """The query parameters of the operation that was meant, as its description has them."""
    path, method = request.scope["route"].path_format, request.method.lower()
    described = request.app.openapi()["paths"]
    operation = next(each[method] for whole, each in described.items() if whole.endswith(path))
    return queried(operation)


def queried(operation: Mapping[str, Any]) -> list[str]:
    """The names of its query parameters, of what OpenAPI has of an operation."""
    return [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = f"there is nothing at {request.url.path}."
    fix = "What can be asked is described at /docs."
    if error.status_code == 405:
        detail, fix = f"{request.method} is not for {request.url.path}.", "See /docs"
    return answer(request, Problem(error.status_code, detail, fix=fix), error.headers)
