"""What ranks did at a moment of the past: of an answer about spans, one as about ranks. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.protocol.topology import Axis, Topology

Span = Mapping[str, Any]
WAITS_S = STILL_S = 1.0
"""As of a live rank: ten samples that agree."""


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
    }


def grid_of(rows: Mapping[str, Any], topology: Topology, ranks: int) -> dict[str, Any]:
    """Of an answer of `ranks_of`, one as of `GET /jobs/{job}/view3d`: all of the job's ranks, those
    without a span unseen. For whom each waited is in no trace."""
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
        "waits": [],
        "ends": [],
        "why": [],
        "nothing": rows["nothing"],
    }


def _placed(rank: int, row: Mapping[str, Any], shape: Topology) -> dict[str, Any]:
    at = shape.coordinates(rank)
    place = [at[Axis.DP], at[Axis.PP], at[Axis.TP]]
    state = row.get("state", "unseen")
    return {"rank": rank, "node": row.get("node", ""), "at": place, "state": state}


def _row(rank: int, spans: Sequence[Span], answer: Mapping[str, Any]) -> dict[str, Any]:
    last = max(spans, key=_end)
    waits = not last.get("ended", True) and last.get("waited_s", 0.0) > WAITS_S
    quiet_s = answer["to_s"] - _end(last)
    row = {
        "rank": rank,
        "node": spans[0]["node"],
        "step": max(span.get("step", 0) for span in spans),
        "state": "waits" if waits else "still" if quiet_s > STILL_S else "runs",
        "still_s": max(0.0, last["waited_s"] if waits else quiet_s),
    }
    spent = _spent(spans, answer["to_s"] - answer["from_s"])
    return {**row, "spent": spent} if spent else row


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
