"""Rows of `holdfast ranks` of a job that has ended: of its last spans. Pure.

Used by `offline`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.page.draw.moments import ranks_of

ENDED = "ended"
NOT_KEPT = "what ranks did at each moment, and for whom they waited, is in no journal."
OF_SPANS = "steps, phases and waits are of its last spans; for whom they waited: holdfast view3d"

Spans = Mapping[str, Any]


def rows(
    ranks: int, each: int, node_of: Callable[[int], str], spans: Spans
) -> list[dict[str, Any]]:
    """Of all of whom anything is known; `each`: ranks of a node, `spans`: as `GET …/spans` has
    them."""
    seen = {row["rank"]: row for row in ranks_of(spans)["ranks"]}
    last = _last(spans)
    made = (_row(rank, each, node_of(rank), seen.get(rank, {}), last) for rank in range(ranks))
    return [row for row in made if row["node"]]


def _row(
    rank: int, each: int, node: str, seen: Mapping[str, Any], last: Mapping[int, str]
) -> dict[str, Any]:
    row = {"rank": rank, "local_rank": rank % each, "node": node or seen.get("node", "")}
    known = {key: seen[key] for key in ("step", "spent") if key in seen}
    phase = {"phase": last[rank]} if rank in last else {}
    return {**row, "state": ENDED, **known, **phase}


def _last(spans: Spans) -> dict[int, str]:
    """What each was at when it was last seen: the innermost where there are several."""
    ends: dict[int, tuple[tuple[float, float], str]] = {}
    for span in spans["spans"]:
        if span["kind"] == "step":
            continue
        began_s = float(span.get("start_s", 0.0))
        at = began_s + float(span.get("took_s", 0.0)), began_s
        if span["rank"] not in ends or at >= ends[span["rank"]][0]:
            ends[span["rank"]] = at, span.get("name") or span["kind"]
    return {rank: what for rank, (_, what) in ends.items()}
