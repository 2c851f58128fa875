"""What ranks did, as files: pictures of a job that is over, and one that Perfetto reads.

Used by `reading`. A picture is that of `holdfast heatmap`, `timeline` and `view3d`, of the same
traces; the other file is that of `holdfast trace export`.
"""

import time
from asyncio import Lock, to_thread
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.responses import Response

from holdfast.driver.adapters.page.asked import Asked
from holdfast.driver.adapters.page.past import Past
from holdfast.driver.adapters.rest.problems import Problem, not_found
from holdfast.page import ended
from holdfast.page.draw import burst_svg, grid_svg, heat_svg, moments, themes, timeline_svg
from holdfast.page.ended import LAST_S, Ended
from holdfast.traces.perfetto import trace

PERFETTO = "application/x-protobuf"
TRACE_S = 60.0
"""As the interface has it where no time is named."""
GOOD_FOR_S = 30.0
"""The last spans of a job come some seconds after its end."""
MOST = 4
"""Jobs of which pictures are kept: of many ranks each may be tens of megabytes."""


class _Kept(NamedTuple):
    until_s: float
    ended: Ended


class Endings:
    """What was read last, by job; spans are read, and files made of them, one at a time."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, float], _Kept] = {}  # by name, and how old it became
        self.one = Lock()


async def ending(asked: Asked, job: Mapping[str, Any]) -> Ended:
    """What the last seconds of a job that is over were, read once for all who look."""
    endings: Endings = asked.request.app.state.endings
    kept, life = endings.kept, (job["name"], job["age_s"])
    async with endings.one:
        now_s, known = time.monotonic(), kept.get(life)
        if known is None or known.until_s < now_s:
            past = await asked.facts.spans(job["name"], max(LAST_S.values()))
            known = _Kept(now_s + GOOD_FOR_S, await to_thread(_made, past, job))
            while len(kept) >= MOST:
                del kept[next(iter(kept))]
            kept[life] = known
    return known.ended


def _made(past: Past, job: Mapping[str, Any]) -> Ended:
    heat, lines = (past.answer(LAST_S[view]) for view in ("heatmap", "timeline"))
    return ended.of(heat, lines, job)


async def picture(asked: Asked, name: str, view: str) -> Response:
    """Raises `Problem` (404) where there is no such picture of the job."""
    made = await ending(asked, await asked.facts.job(name))
    draw: Callable[..., str] | None = made.drawn.get(view)
    if draw is None:
        raise not_found("picture", view, made.drawn)
    return await drawn(asked, draw)


async def burst(asked: Asked, name: str, number: str) -> Response:
    """What a node's rails moved. Raises `Problem` (404) where there is no such burst."""
    bursts = await asked.facts.bursts(name)
    found = next((each["id"] for each in bursts if str(each["id"]) == number), None)
    if found is None:
        raise not_found("burst", number, [str(each["id"]) for each in bursts])
    return await drawn(asked, partial(burst_svg.drawn, await asked.facts.burst(name, found)))


async def drawn(asked: Asked, draw: Callable[..., str]) -> Response:
    """For a light page, or with `?dark=1` for a dark one."""
    theme = themes.DARK if asked.request.query_params.get("dark") else themes.LIGHT
    async with asked.request.app.state.endings.one:
        drawn = await to_thread(draw, theme=theme)
    return Response(drawn, media_type="image/svg+xml")


async def until_found(asked: Asked, name: str, incident: int, view: str) -> Response:
    """Where each rank's time went and what it did until the incident was found, or who waited for
    whom then. Raises `Problem` (404) where there is no such picture."""
    job = await asked.facts.job(name)
    draws: dict[str, Callable[[dict[str, Any]], Callable[..., str]]] = {
        "heatmap": lambda told: partial(heat_svg.drawn, moments.ranks_of(told)),
        "timeline": lambda told: partial(timeline_svg.drawn, told, None),
        "timeline-narrow": lambda told: partial(
            timeline_svg.drawn, told, None, width=timeline_svg.NARROW
        ),
        "view3d": lambda told: partial(grid_svg.drawn, ended.grid_of(told, job)),
    }
    if view not in draws:
        raise not_found("picture", view, draws)
    async with asked.request.app.state.endings.one:
        past = await asked.facts.spans_until(name, incident)
        draw = await to_thread(lambda: draws[view](past.answer()))
    return await drawn(asked, draw)


async def perfetto(asked: Asked, name: str, incident: int | None = None) -> Response:
    """Of the last minute, or until the incident was found. Raises `Problem` (404) where none of it
    is kept."""
    last, facts = incident is None, asked.facts
    when = "the last minute" if last else f"the time before incident {incident}"
    async with asked.request.app.state.endings.one:
        past = await (
            facts.spans(name, TRACE_S) if incident is None else facts.spans_until(name, incident)
        )
        if not past.found.spans:
            fix = "What there is: holdfast trace ls"
            raise Problem(404, f"no spans of {when} of {name} are kept.", fix=fix)
        data = await to_thread(lambda: b"".join(trace(past.found.spans)))
    return saved(data, PERFETTO, f"{name if last else f'{name}-{incident}'}.pftrace")


def saved(data: bytes | str, kind: str, file: str) -> Response:
    """A file that a browser saves under that name."""
    how = f"attachment; filename*=UTF-8''{quote(file, safe='')}"
    return Response(data, media_type=kind, headers={"Content-Disposition": how})
