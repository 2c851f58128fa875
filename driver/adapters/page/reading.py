"""The pages that show: jobs, a job, its story, an incident, nodes, a node, the brake; pictures."""

from asyncio import gather, to_thread
from contextlib import suppress

from starlette.responses import Response
from starlette.routing import Route

from holdfast.driver.adapters.page import reports, static, tracing
from holdfast.driver.adapters.page.asked import Asked, alike, answered, with_forms
from holdfast.driver.adapters.page.facts import Dict
from holdfast.driver.adapters.rest.goodput import MAX_SINCE_S
from holdfast.driver.adapters.rest.problems import Problem, not_found
from holdfast.driver.people.access import NotAllowed, Right
from holdfast.page import pages
from holdfast.page.words import FINISHED
from holdfast.telemetry.analysis import alike_stacks

MOST_DIGITS = 8
DAY_S, MONTH_DAYS = 86_400.0, 30
MOST_DAYS = int(MAX_SINCE_S / DAY_S)


async def jobs(asked: Asked) -> str:
    facts = asked.facts
    await facts.may(asked.token, Right.SEE_JOBS)
    found, fleet = await facts.jobs(), None
    with suppress(NotAllowed):  # jobs may be all that one may see
        await facts.may(asked.token, Right.SEE_NODES)
        fleet = pages.Fleet(await facts.nodes(), await facts.brake())
    return await to_thread(pages.jobs, asked.frame(), found, fleet)


async def job(asked: Asked) -> str:
    name = await seen(asked)
    found, incidents = await asked.facts.job(name), await asked.facts.incidents(name)
    log, why, time, told = await gather(
        _log(asked, found, incidents),
        asked.facts.why_job(name),
        asked.facts.goodput(name),
        asked.facts.curves(name),
    )
    over = found["phase"] in FINISHED or not asked.facts.live
    last = await tracing.ending(asked, found) if over else None
    more = pages.More(time, log, told, last)
    return await to_thread(pages.job, asked.frame(), found, incidents, why, more)


async def picture(asked: Asked) -> Response:
    return await tracing.picture(asked, await seen(asked), asked.request.path_params["view"])


async def burst(asked: Asked) -> Response:
    return await tracing.burst(asked, await seen(asked), asked.request.path_params["number"])


async def trace(asked: Asked) -> Response:
    return await tracing.perfetto(asked, await seen(asked))


async def _log(asked: Asked, found: Dict, incidents: list[Dict]) -> pages.Log:
    """That which is asked for. Else of the newest attempt, or of the one before, where the last
    fault ended that and an error is found there alone.
    """
    rank, stream, attempt = (
        _rank(asked, found, incidents),
        _stream(asked),
        _number(asked, "attempt"),
    )
    log = await asked.facts.log(asked.token, found["name"], rank, stream, attempt)
    faults = any(each["faults"] for each in incidents)
    if attempt is not None or log.pane.error or not faults or log.attempt < 2:
        return log
    before = await asked.facts.log(asked.token, found["name"], rank, stream, log.attempt - 1)
    return before if before.pane.error else log


def _number(asked: Asked, name: str) -> int | None:
    """What is asked for by that name, if anything is. Raises `Problem` (422)."""
    given = asked.request.query_params.get(name, "")
    if not given:
        return None
    if given.isascii() and given.isdigit() and len(given) <= MOST_DIGITS:
        return int(given)
    raise Problem(422, f"{name}: {given!r} is none.", fix="Give a whole number from 0.")


def _rank(asked: Asked, found: Dict, incidents: list[Dict]) -> int:
    """Whose log: that which is asked for, else the one that ended first, or that a fault was of."""
    if (given := _number(asked, "rank")) is not None:
        return given
    if found["exit"]:
        return int(found["exit"]["rank"])
    ranks = [each["rank"] for each in incidents if each["faults"] and each["rank"] is not None]
    return int(ranks[-1]) if ranks else 0


def _stream(asked: Asked) -> str:
    given = asked.request.query_params.get("stream", "stderr")
    if given not in ("stdout", "stderr"):
        raise Problem(422, f"stream: {given!r} is none.", fix="Give stdout or stderr.")
    return given


async def story(asked: Asked) -> str:
    name = await seen(asked)
    return await to_thread(pages.story, asked.frame(), await asked.facts.story(name))


async def picture_of_incident(asked: Asked) -> Response:
    name, view = await seen(asked), asked.request.path_params["view"]
    number = (await _incident(asked, name))["number"]
    return await tracing.until_found(asked, name, number, view)


async def trace_of_incident(asked: Asked) -> Response:
    name = await seen(asked)
    return await tracing.perfetto(asked, name, (await _incident(asked, name))["number"])


async def _incident(asked: Asked, name: str) -> Dict:
    """That of the path. Raises `Problem` (404) where the job had no such incident."""
    number = asked.request.path_params["number"]
    found = {str(each["number"]): each for each in await asked.facts.incidents(name)}
    if number not in found:
        raise not_found("incident", number, found)
    return found[number]


async def incident(asked: Asked) -> str:
    name = await seen(asked)
    one = await _incident(asked, name)
    told = await asked.facts.story(name)
    stood = alike_stacks.alike({int(rank): text for rank, text in one["stacks"].items()})
    taken = [each for each in await asked.facts.bursts(name) if each["incident"] == one["number"]]
    return await to_thread(pages.incident, asked.frame(), name, one, told, stood, taken)


async def report_of_incident(asked: Asked) -> Response:
    """The same as one file, to be kept and sent."""
    name = await seen(asked)
    one, job, told = (
        await _incident(asked, name),
        await asked.facts.job(name),
        await asked.facts.story(name),
    )
    html = await to_thread(reports.of_incident, one, job, told["lines"])
    return tracing.saved(html, "text/html; charset=utf-8", f"{name}-{one['number']}.html")


async def goodput(asked: Asked) -> str:
    await asked.facts.may(asked.token, Right.SEE_JOBS)
    days = _number(asked, "days")
    days = MONTH_DAYS if days is None else days
    if not 1 <= days <= MOST_DAYS:
        raise Problem(422, f"days: {days} is none.", fix=f"Give 1 to {MOST_DAYS}.")
    told = await asked.facts.fleet_goodput(days * DAY_S)
    return await to_thread(pages.goodput, asked.frame(), told, days)


async def nodes(asked: Asked) -> str:
    await asked.facts.may(asked.token, Right.SEE_NODES)
    return await to_thread(pages.nodes, asked.frame(), await asked.facts.nodes())


async def node(asked: Asked) -> Response:
    await asked.facts.may(asked.token, Right.SEE_NODES)
    name = asked.request.path_params["node"]
    found, why = await asked.facts.node(name), await asked.facts.why_node(name)
    html = pages.node(asked.frame(), found, why, await done(asked, name))
    return with_forms(html)


async def brake(asked: Asked) -> Response:
    await asked.facts.may(asked.token, Right.SEE_NODES)
    html = pages.brake(asked.frame(), await asked.facts.brake(), await done(asked, "brake"))
    return with_forms(html)


async def seen(asked: Asked) -> str:
    """The whole name of the job in the path, where it may be seen."""
    given = asked.request.path_params["job"]
    name = await asked.facts.may(asked.token, Right.SEE_JOB, given)
    return await asked.facts.may(asked.token, Right.SEE_JOBS, name)


async def done(asked: Asked, name: str) -> str:
    """What came of what was just asked for."""
    given = asked.request.query_params.get("done", "")
    number = int(given) if given.isascii() and given.isdigit() and len(given) < 19 else 0
    return await asked.facts.done(name, number) if number else ""


PATHS = {
    "/": alike(jobs),
    "/jobs/{job}": alike(job),
    "/jobs/{job}/story": alike(story),
    "/jobs/{job}/trace": trace,
    "/jobs/{job}/{view}.svg": picture,
    "/jobs/{job}/bursts/{number}.svg": burst,
    "/jobs/{job}/incidents/{number}": alike(incident),
    "/jobs/{job}/incidents/{number}/{view}.svg": picture_of_incident,
    "/jobs/{job}/incidents/{number}/trace": trace_of_incident,
    "/jobs/{job}/incidents/{number}/report": report_of_incident,
    "/goodput": alike(goodput),
    "/nodes": alike(nodes),
    "/nodes/{node}": node,
    "/brake": brake,
}


def routes() -> list[Route]:
    """Pages, and the files that they load, which have no facts in them."""
    made = [Route(path, answered(page), methods=["GET"]) for path, page in PATHS.items()]
    return [static.route(), *made]
