"""Pictures of the ranks of a job that is over, of its last seconds in traces. Pure.

What they show is said beside each in words. Racks, roles and detectors' verdicts are not in traces.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from holdfast.page.draw import grid_svg, heat_svg, moments, timeline_svg
from holdfast.page.draw.heat import NAMED, heat
from holdfast.page.draw.timeline import timeline
from holdfast.page.words import ranks
from holdfast.protocol.topology import DEFAULT_ORDER, Axis, Topology

TOLD_WAITS, NAMED_RANKS = 4, 16
Answer = Mapping[str, Any]

LAST_S = {"heatmap": 10.0, "timeline": 30.0}
"""As `holdfast heatmap` and `timeline` show of a run that is over."""
TITLES = {
    "heatmap": "Where each rank's time went",
    "timeline": "What each rank did when",
    "view3d": "What each rank was at in the end",
}


class Shown(NamedTuple):
    """A picture: its name in an address, its title, and what it shows as sentences."""

    view: str
    title: str
    says: list[str]


class Ended(NamedTuple):
    """`drawn`: by name, called with a `theme`. `missing`: why there is nothing, else ""."""

    when: str
    shown: list[Shown]
    drawn: dict[str, Callable[..., str]]
    missing: str = ""


def of(last: Answer, lines: Answer, job: Mapping[str, Any]) -> Ended:
    """`last`, `lines`: answers about spans, for the heat map and for the timeline; `job`: as
    `GET /jobs/{job}` has it."""
    if not last["spans"]:
        why = "; ".join(lines["troubles"])
        missing = "No traces of it are kept, so nothing tells what each rank did."
        return Ended("", [], {}, f"{missing} {why}".rstrip())
    rows = moments.ranks_of(last)
    grid = moments.grid_of(rows, _topology(job), job["ranks"])
    drawn: dict[str, Callable[..., str]] = {
        "heatmap": partial(heat_svg.drawn, rows),
        "timeline": partial(timeline_svg.drawn, lines, None),
        "timeline-narrow": partial(timeline_svg.drawn, lines, None, width=timeline_svg.NARROW),
        "view3d": partial(grid_svg.drawn, grid),
    }
    says = {"heatmap": _outliers(rows), "timeline": _awaited(lines), "view3d": _states(grid)}
    shown = [Shown(view, TITLES[view], says[view]) for view in says]
    return Ended(f"{last['from_s']:.1f} s to {last['to_s']:.1f} s", shown, drawn)


def grid_of(last: Answer, job: Answer) -> dict[str, Any]:
    """As of `GET /jobs/{job}/view3d`, of what ranks did last: an answer about spans."""
    return moments.grid_of(moments.ranks_of(last), _topology(job), job["ranks"])


def _topology(job: Mapping[str, Any]) -> Topology:
    layout, declared = job["layout"], job["spec"].get("spec", {}).get("topology", {})
    order = tuple(Axis(each) for each in declared.get("order", DEFAULT_ORDER))
    return Topology(dp=layout["dp"], pp=layout["pp"], tp=layout["tp"], order=order)


def _outliers(rows: Answer) -> list[str]:
    found = heat(rows).outliers
    told = [f"{heat_svg.named(each)}: {each.says}." for each in found[:NAMED]]
    more = [f"{len(found) - NAMED:,} more differ."] if len(found) > NAMED else []
    return [*told, *more] or ["No rank differs from the others."]


def _awaited(lines: Answer) -> list[str]:
    said = timeline(lines).says
    return [f"{said[:1].upper()}{said[1:]}."] if said else ["No rank was waited for in the end."]


def _states(grid: Answer) -> list[str]:
    states: dict[str, int] = {}
    for each in grid["ranks"]:
        states[each["state"]] = states.get(each["state"], 0) + 1
    told = (f"{count:,} {state}" for state, count in sorted(states.items()))
    waits = sorted(grid["waits"], key=lambda wait: -len(wait["waiting"]))[:TOLD_WAITS]
    return [f"Ranks: {', '.join(told)}.", *map(_wait, waits)]


def _wait(wait: Answer) -> str:
    """`ranks 0-2 wait in all_reduce #789 for rank 3`."""
    waiting = wait["waiting"]
    does = "waits" if len(waiting) == 1 else "wait"
    whom = _some(wait["lacking"]) if wait["lacking"] else "nobody known"
    said = f"{_some(waiting)} {does} in {wait['where']} for {whom}."
    return f"{said[:1].upper()}{said[1:]}"


def _some(listed: Sequence[int]) -> str:
    """Few are named, of many it is said how many."""
    return ranks(listed) if len(listed) <= NAMED_RANKS else f"{len(listed):,} ranks"
