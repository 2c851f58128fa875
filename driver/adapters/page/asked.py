"""One request for a page: who asks, of which facts, and what is answered where it goes wrong.

Used by `reading` and `changing`. A problem is a page, too, with the words of the REST interface.
"""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from holdfast.driver.adapters.page.crowd import Crowd
from holdfast.driver.adapters.page.facts import Facts
from holdfast.driver.adapters.page.safety import Session, cookie_name, session_of
from holdfast.driver.adapters.page.sessions import SESSION_S, Sessions
from holdfast.driver.adapters.rest import problems
from holdfast.driver.adapters.rest.problems import Problem
from holdfast.driver.people.access import Rebuff, Stranger
from holdfast.driver.ports import TemporaryError
from holdfast.page import pages
from holdfast.page.pages import Frame
from holdfast.protocol.mistakes import BadDocument

NO_CODE = "this address was good for one use within a minute, and is not any more."
NEW = "A new one: holdfast page"


class Asked(NamedTuple):
    """A request of somebody who may look."""

    request: Request
    facts: Facts
    session: Session

    @property
    def token(self) -> str:
        return self.session.token

    def frame(self) -> Frame:
        """Around the page; without a driver nothing can be changed."""
        facts = self.facts
        form = self.session.form if facts.live else ""
        return Frame(facts.live, facts.sequence, facts.said(), form)


Page = Callable[[Asked], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]


def answered(page: Page) -> Endpoint:
    """`page` for who has a session; a code in the address makes one."""

    async def answer(request: Request) -> Response:
        facts: Facts = request.app.state.facts
        sessions: Sessions = request.app.state.sessions
        try:
            if request.method == "GET" and (code := request.query_params.get("code")) is not None:
                return await _signed_in(request, facts, sessions, code)
            return await page(Asked(request, facts, session_of(request, sessions)))
        except Stranger as error:
            again = _address(request) if _came_from_elsewhere(request) else ""
            return _refused(problems.of_rebuff(error), again)
        except Rebuff as error:
            return _refused(problems.of_rebuff(error))
        except BadDocument as error:
            return _refused(problems.of_mistakes(error))
        except TemporaryError as error:
            return _refused(Problem(503, str(error), fix="Try again later."))
        except Problem as problem:
            return _refused(problem)

    return answer


def alike(make: Callable[[Asked], Awaitable[str]]) -> Page:
    """A page without forms, which is the same for all who have the same token."""

    async def page(asked: Asked) -> Response:
        crowd: Crowd = asked.request.app.state.crowd
        url = asked.request.url
        key = (f"{url.path}?{url.query}", asked.token, asked.facts.sequence)
        return HTMLResponse(await crowd.page(key, lambda: make(asked)))

    return page


def with_forms(html: str) -> Response:
    """A page from which a browser says where a form comes from, which it does to us alone."""
    return HTMLResponse(html, headers={"Referrer-Policy": "same-origin"})


async def _signed_in(request: Request, facts: Facts, sessions: Sessions, code: str) -> Response:
    """Goes on by the page itself and not by a redirect: the browser sends a strict cookie to where
    our own page leads, also where another program's or site's link led here.
    """
    cookie = sessions.redeem(code)
    if cookie is None:
        raise Stranger(NO_CODE, fix=NEW)
    again = _address(request)
    if again == "/" and len(jobs := await facts.jobs()) == 1:
        again = f"/jobs/{quote(jobs[0]['name'], safe='')}"
    html = pages.problem("One moment", "The page opens.", again=again)
    answer = HTMLResponse(html)
    answer.set_cookie(
        cookie_name(request),
        cookie,
        max_age=SESSION_S,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


def _address(request: Request) -> str:
    """Path and query without a code. Never another site's, whatever the path begins with."""
    path = "/" + quote(request.url.path.lstrip("/\\"), safe="/")
    query = "&".join(
        f"{quote(name, safe='')}={quote(value, safe='')}"
        for name, value in request.query_params.multi_items()
        if name != "code"
    )
    return f"{path}?{query}" if query else path


def _came_from_elsewhere(request: Request) -> bool:
    """By another site's link, with which no strict cookie is sent: asked once more from here the
    browser may have one.
    """
    elsewhere = request.headers.get("sec-fetch-site") == "cross-site"
    return elsewhere and request.method == "GET" and cookie_name(request) not in request.cookies


def _refused(problem: Problem, again: str = "") -> Response:
    html = pages.problem(
        HTTPStatus(problem.status).phrase,
        _sentence(problem.detail),
        fix=problem.fix,
        mistakes=[msgspec.to_builtins(each) for each in problem.errors],
        again=again,
    )
    return HTMLResponse(html, problem.status)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
