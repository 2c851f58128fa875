"""What may be done from the page: evict, restore, say what is known, brake, stop, take stacks, try
a webhook.

Each form is of a session and comes from our own page, or it is refused; what it costs is told on a
page before. The request itself is the same as that of the REST interface.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, quote

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.driver.adapters.page.asked import Asked, answered, with_forms
from holdfast.driver.adapters.page.facts import plain
from holdfast.driver.adapters.page.reading import seen
from holdfast.driver.adapters.page.safety import check_form
from holdfast.driver.adapters.rest.asking import Done, ask
from holdfast.driver.adapters.rest.body import checked_reason, read_bytes
from holdfast.driver.adapters.rest.facts import checked_end, checked_fact, checked_version
from holdfast.driver.adapters.rest.nodes import PERSON
from holdfast.driver.adapters.rest.problems import Problem
from holdfast.driver.adapters.rest.stacks import taken
from holdfast.driver.adapters.rest.webhooks import list_webhooks, send_example
from holdfast.driver.core import events
from holdfast.driver.core.events import AnyEvent
from holdfast.driver.people.access import Right
from holdfast.driver.people.control import Control
from holdfast.page import pages, stacks

FORM = "application/x-www-form-urlencoded"
MOST_BYTES = 16_384
MOST_FIELDS = 16


async def ask_evict(asked: Asked) -> Response:
    facts, name = asked.facts, asked.request.path_params["node"]
    await facts.may(asked.token, Right.CHANGE_NODES)
    found, nodes = await facts.node(name), await facts.nodes()
    job = await facts.job(found["job"]) if found["job"] else None
    incidents = await facts.incidents(found["job"]) if found["job"] else []
    html = pages.eviction(asked.frame(), found, job, nodes, incidents, _of_node(name))
    return with_forms(html)


async def ask_stop(asked: Asked) -> Response:
    name = await seen(asked)
    await asked.facts.may(asked.token, Right.CHANGE_JOB, name)
    html = pages.stopping(asked.frame(), await asked.facts.job(name), _of_job(name))
    return with_forms(html)


async def ask_tell(asked: Asked) -> Response:
    """What a fact of a node would mean, and to whom it is told."""
    facts, name = asked.facts, asked.request.path_params["node"]
    await facts.may(asked.token, Right.CHANGE_NODES)
    await facts.node(name)
    given = _fact_of_node(asked.request.query_params)
    return with_forms(pages.telling(asked.frame(), name, given, _of_node(name)))


async def ask_tell_of_job(asked: Asked) -> Response:
    name = await seen(asked)
    await asked.facts.may(asked.token, Right.CHANGE_JOB, name)
    given = _fact_of_job(asked.request.query_params)
    return with_forms(pages.telling_of_job(asked.frame(), name, given, _of_job(name)))


def _fact_of_node(given: Mapping[str, str]) -> dict[str, Any]:
    """Of a form, in which an empty field is one that is left out. Raises `BadDocument`."""
    return checked_fact(dict(given)) | checked_end(given.get("to") or None)


def _fact_of_job(given: Mapping[str, str]) -> dict[str, Any]:
    """The same. A version that is no number is refused with the words that it was given in."""
    number = given.get("version", "")
    version = int(number) if number.isascii() and number.isdigit() else number or None
    told = checked_fact(dict(given))
    checked = checked_version(version)
    return told | ({} if checked is None else {"version": checked})


async def ask_stacks(asked: Asked) -> Response:
    name = await seen(asked)
    await asked.facts.may(asked.token, Right.READ_LOGS, name)
    given = asked.request.query_params.get("ranks", "")
    ranks = given if given and stacks.numbers(given) else await _all_ranks(asked, name)
    return with_forms(pages.stacks_of(asked.frame(), name, ranks))


async def ask_webhooks(asked: Asked) -> Response:
    """Who is told what happens; `?taken=NAME`: who has just taken an example."""
    await asked.facts.may(asked.token, Right.SEE_NODES)
    told = plain(await list_webhooks(asked.request.app.state.control))["items"]
    taken = asked.request.query_params.get("taken", "")
    known = taken if taken in {each["name"] for each in told} else ""
    return with_forms(pages.webhooks(asked.frame(), told, known))


async def _all_ranks(asked: Asked, name: str) -> str:
    return stacks.offered((await asked.facts.job(name))["ranks"])


async def evict(asked: Asked, form: dict[str, str]) -> Response:
    node, reason = asked.request.path_params["node"], checked_reason(form.get("reason"))
    return await _of(asked, node, events.NodeEvictRequested(node=node, reason=reason, by=PERSON))


async def restore(asked: Asked, form: dict[str, str]) -> Response:
    node, reason = asked.request.path_params["node"], checked_reason(form.get("reason"))
    return await _of(asked, node, events.NodeRestoreRequested(node=node, reason=reason, by=PERSON))


async def tell(asked: Asked, form: dict[str, str]) -> Response:
    node = asked.request.path_params["node"]
    return await _of(asked, node, events.NodeFactTold(node=node, by=PERSON, **_fact_of_node(form)))


async def tell_of_job(asked: Asked, form: dict[str, str]) -> Response:
    """Of the version that the form names, or of its newest."""
    name = await seen(asked)
    await asked.facts.may(asked.token, Right.CHANGE_JOB, name)
    await _do(asked, name, events.JobFactTold(job=name, by=PERSON, **_fact_of_job(form)))
    return RedirectResponse(f"{_of_job(name)}#happened", 303)


async def apply(asked: Asked, form: dict[str, str]) -> Response:
    reason = checked_reason(form.get("reason"))
    return await _of_brake(asked, events.BrakeApplyRequested(reason=reason, by=PERSON))


async def release(asked: Asked, form: dict[str, str]) -> Response:
    reason = checked_reason(form.get("reason"))
    return await _of_brake(asked, events.BrakeReleaseRequested(reason=reason, by=PERSON))


async def stop(asked: Asked, _form: dict[str, str]) -> Response:
    name = await seen(asked)
    await asked.facts.may(asked.token, Right.CHANGE_JOB, name)
    await _do(asked, name, events.StopRequested(job=name, by=PERSON))
    return RedirectResponse(_of_job(name), 303)


async def take_stacks(asked: Asked, form: dict[str, str]) -> Response:
    """The stacks themselves are the answer: nothing has changed that could be looked at."""
    name = await seen(asked)
    await asked.facts.may(asked.token, Right.READ_LOGS, name)
    ranks = stacks.numbers(given := form.get("ranks", ""))
    if ranks is None:
        fix = f"Write numbers and spans, such as 0-3, 7: {stacks.MOST:,} ranks at most."
        raise Problem(422, f"ranks: {given!r} are none.", fix=fix)
    state = asked.request.app.state
    told = await taken(state.control, state.sampler, name, ranks)
    return with_forms(pages.stacks_of(asked.frame(), name, given, plain(told)))


async def try_webhook(asked: Asked, _form: dict[str, str]) -> Response:
    await asked.facts.may(asked.token, Right.CHANGE_NODES)
    name = asked.request.path_params["webhook"]
    await send_example(name, asked.request.app.state.control)
    return RedirectResponse(f"/webhooks?taken={quote(name, safe='')}", 303)


async def _of(asked: Asked, node: str, event: AnyEvent) -> Response:
    await asked.facts.may(asked.token, Right.CHANGE_NODES)
    done = await _do(asked, node, event)
    return RedirectResponse(f"{_of_node(node)}?done={done.sequence}", 303)


async def _of_brake(asked: Asked, event: AnyEvent) -> Response:
    await asked.facts.may(asked.token, Right.CHANGE_NODES)
    done = await _do(asked, "brake", event)
    return RedirectResponse(f"/brake?done={done.sequence}", 303)


async def _do(asked: Asked, name: str, event: AnyEvent) -> Done:
    control: Control = asked.request.app.state.control
    return await ask(control, name, event)


Change = Callable[[Asked, dict[str, str]], Awaitable[Response]]


def checked(change: Change) -> Callable[[Asked], Awaitable[Response]]:
    """`change`, with the form of whoever may ask for it."""

    async def page(asked: Asked) -> Response:
        form = await _form(asked)
        check_form(asked.request, asked.session, form.get("token", ""))
        return await change(asked, form)

    return page


async def _form(asked: Asked) -> dict[str, str]:
    """Its fields, the last of each name. Raises `Problem` (400, 408, 413, 415)."""
    kind = asked.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        raise Problem(415, f"the body is {kind or 'nothing'!r}, not a form.", fix=f"Send {FORM}.")
    data = await read_bytes(asked.request, limit_bytes=MOST_BYTES)
    try:
        fields = parse_qs(data.decode(), max_num_fields=MOST_FIELDS, strict_parsing=bool(data))
    except ValueError as error:
        raise Problem(400, "the body is no form.", fix="Open the page anew.") from error
    return {name: values[-1] for name, values in fields.items()}


def _of_node(name: str) -> str:
    return f"/nodes/{quote(name, safe='')}"


def _of_job(name: str) -> str:
    return f"/jobs/{quote(name, safe='')}"


ASKS = {
    "/nodes/{node}/evict": ask_evict,
    "/nodes/{node}/facts": ask_tell,
    "/jobs/{job}/facts": ask_tell_of_job,
    "/jobs/{job}/stop": ask_stop,
    "/jobs/{job}/stacks": ask_stacks,
    "/webhooks": ask_webhooks,
}
CHANGES: dict[str, Change] = {
    "/nodes/{node}/evict": evict,
    "/nodes/{node}/restore": restore,
    "/nodes/{node}/facts": tell,
    "/brake/apply": apply,
    "/brake/release": release,
    "/jobs/{job}/facts": tell_of_job,
    "/jobs/{job}/stop": stop,
    "/jobs/{job}/stacks": take_stacks,
    "/webhooks/{webhook}/test": try_webhook,
}


def routes() -> list[Route]:
    """For a running driver alone."""
    asks = [Route(path, answered(page), methods=["GET"]) for path, page in ASKS.items()]
    changes = CHANGES.items()
    return asks + [Route(at, answered(checked(do)), methods=["POST"]) for at, do in changes]
