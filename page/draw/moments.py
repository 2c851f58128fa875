"""What ranks did at a moment of the past: of an answer about spans, one as about ranks. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.page.draw import awaited
from holdfast.protocol.topology import Axis, Topology

Span = Mapping[str, Any]
WAITS_S = STILL_S = 1.0
"""As of a live rank: ten samples that agree."""
MOST_ENDS = 8
"""Ranks that are named as those at which waits end."""


def ranks_of(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Of an answer of `GET /jobs/{job}/spans`; racks and roles are not in traces."""
    spans: dict[int, list[Span]] = {}
    for span in answer["spans"]:
        spans.setdefault(span["rank"], []).append(span)
    rows = [_row(rank, spans[rank], answer) for rank in sorted(spans)]
    seen: dict[str, int] = {}
    for row in rows:
        row["local_rank"] = seen.get(row["node"], 0)
        seen[row["node"]] = row["local_rank"] + 1
    return {
        "job": answer["job"],
        "step": min((row["step"] for row in rows), default=0),
        "ranks": rows,
        "racks": {},
        "nothing": "no spans are kept of that time.",
        **waits_of(answer["spans"]),
    }


def waits_of(spans: Sequence[Span]) -> dict[str, Any]:
    """Who waits for whom, as in an answer of `GET /jobs/{job}/view3d`: for those of a collective's
    group that have not come to it, as far as their spans show that they are of the group."""
    last: dict[int, Span] = {}
    came: dict[tuple[int, int], dict[int, int]] = {}
    for span in spans:
        rank, number = span["rank"], span.get("number", 0)
        if rank not in last or _end(span) > _end(last[rank]):
            last[rank] = span
        if span.get("group") and number:
            group = came.setdefault(_group(span), {})
            group[rank] = max(number, group.get(rank, 0))
    places: dict[tuple[tuple[int, int], int, str], list[int]] = {}
    for rank in sorted(last):
        span = last[rank]
        if _waits(span) and span.get("group") and span.get("number"):
            place = (_group(span), span["number"], awaited.named(span))
            places.setdefault(place, []).append(rank)
    waits: list[dict[str, Any]] = [
        {
            "where": where,
            "waiting": ranks,
            "lacking": sorted(rank for rank, most in came[group].items() if most < number),
        }
        for (group, number, where), ranks in places.items()
    ]
    waiting = {rank for wait in waits for rank in wait["waiting"]}
    ends = sorted({rank for wait in waits for rank in wait["lacking"]} - waiting)[:MOST_ENDS]
    listed = f"rank{'s' if len(ends) > 1 else ''} {', '.join(map(str, ends))}"
    many = f"{len(waiting)} rank{'s' if len(waiting) > 1 else ''}"
    why = [f"by traces the waits of {many} end at {listed}"] if ends else []
    return {"waits": waits, "ends": ends, "why": why}


def _group(span: Span) -> tuple[int, int]:
    return span.get("attempt", 1), span["group"]


def _waits(span: Span) -> bool:
    return not span.get("ended", True) and span.get("waited_s", 0.0) > WAITS_S


def grid_of(rows: Mapping[str, Any], topology: Topology, ranks: int) -> dict[str, Any]:
    """Of an answer of `ranks_of`, one as of `GET /jobs/{job}/view3d`: all of the job's ranks, those
    without a span unseen."""
    declared = topology.world_size == ranks
    shape = topology if declared else Topology(dp=ranks)
    known = {row["rank"]: row for row in rows["ranks"]}
    return {
        "job": rows["job"],
        "dims": {axis.value: shape.size(axis) for axis in Axis},
        "order": [axis.value for axis in shape.order],
        "declared": declared,
        "quiet_s": 0.0,
        "ranks": [_placed(rank, known.get(rank, {}), shape) for rank in range(ranks)],
        "waits": rows["waits"],
        "ends": rows["ends"],
        "why": rows["why"],
        "nothing": rows["nothing"],
    }


def _placed(rank: int, row: Mapping[str, Any], shape: Topology) -> dict[str, Any]:
    at = shape.coordinates(rank)
    place = [at[Axis.DP], at[Axis.PP], at[Axis.TP]]
    state = row.get("state", "unseen")
    return {"rank": rank, "node": row.get("node", ""), "at": place, "state": state}


def _row(rank: int, spans: Sequence[Span], answer: Mapping[str, Any]) -> dict[str, Any]:
    last = max(spans, key=_end)
    waits = _waits(last)
    quiet_s = answer["to_s"] - _end(last)
    row = {
        "rank": rank,
        "node": spans[0]["node"],
        "step": max(span.get("step", 0) for span in spans),
        "state": _state(last, quiet_s),
        "still_s": max(0.0, last["waited_s"] if waits else quiet_s),
    }
    spent = _spent(spans, answer["to_s"] - answer["from_s"])
    return {**row, "spent": spent} if spent else row


def _state(last: Span, quiet_s: float) -> str:
    if _waits(last):
        return "waits"
    if not last.get("ended", True) and last.get("name") == "stopped":
        return "stopped"
    return "still" if quiet_s > STILL_S else "runs"


def _spent(spans: Sequence[Span], window_s: float) -> dict[str, Any]:
    """Seconds a step; nothing where no step ended."""
    steps = [span for span in spans if span["kind"] == "step" and span.get("ended", True)]
    if not steps:
        return {}
    wall: dict[str, float] = {}
    for span in spans:
        if span["kind"] != "step":
            took_s = span.get("took_s", 0.0) / len(steps)
            wall[span["kind"]] = wall.get(span["kind"], 0.0) + took_s
    waits_s = sum(s.get("waited_s", 0.0) for s in spans if s["kind"] != "step") / len(steps)
    step_s = sum(span.get("took_s", 0.0) for span in steps) / len(steps)
    return {
        "window_s": window_s,
        "steps": len(steps),
        "step_s": step_s,
        "own_s": max(0.0, step_s - waits_s),
        "waits_s": waits_s,
        "wall_s": wall,
    }


def _end(span: Span) -> float:
    return float(span.get("start_s", 0.0)) + float(span.get("took_s", 0.0))
