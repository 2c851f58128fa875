"""Answers about the ranks of a job that is made up: of any size, with ranks that differ."""

from collections.abc import Iterable
from random import Random
from typing import Any

PHASES = {"forward": 0.30, "backward": 0.55, "optimizer": 0.05, "data": 0.02}


def answer(
    ranks: int, *, each: int = 8, slow: Iterable[int] = (), more: float = 0.3, seed: int = 1
) -> dict[str, Any]:
    """As of `GET /jobs/{job}/ranks`; those of `slow` take so much longer for their own part."""
    rng, late = Random(seed), set(slow)
    nodes = -(-ranks // each)
    return {
        "job": "speech-7b",
        "epoch": 1,
        "now_s": 900.0,
        "step": 1_200,
        "ranks": [row(rank, each, rng, more if rank in late else 0.0) for rank in range(ranks)],
        "racks": {f"node-{node}": f"rack-{node // 4}" for node in range(nodes)},
        "nothing": "",
    }


def row(rank: int, each: int, rng: Random, more: float = 0.0) -> dict[str, Any]:
    """A rank in step with all others, which waits for as long as its own part leaves."""
    own_s = 0.92 * (1 + more) * (1 + rng.gauss(0, 0.01))
    spread = {name: share * (1 + more) * (1 + rng.gauss(0, 0.01)) for name, share in PHASES.items()}
    spent = {
        "window_s": 4.5,
        "steps": 4,
        "step_s": 1.3,
        "own_s": own_s,
        "waits_s": max(0.001, 1.3 - own_s),
        "cpu_s": 0.8 * own_s * (1 + rng.gauss(0, 0.01)),
        "wall_s": spread,
    }
    return {
        "rank": rank,
        "local_rank": rank % each,
        "node": f"node-{rank // each}",
        "state": "runs",
        "step": 1_200,
        "still_s": 0.1,
        "spent": spent,
    }


def view3d(dp: int, pp: int, tp: int, *, stopped: int | None = None) -> dict[str, Any]:
    """As of `GET /jobs/{job}/view3d`; all wait for `stopped`: its tp group in one of theirs, which
    the rest wait for."""
    count = dp * pp * tp
    ranks = [
        {
            "rank": rank,
            "node": f"node-{rank // 8}",
            "at": [(rank // tp) % dp, rank // (tp * dp), rank % tp],
            "state": "runs" if stopped is None else "stopped" if rank == stopped else "waits",
        }
        for rank in range(count)
    ]
    waits = [] if stopped is None else _waits(count, tp, stopped)
    return {
        "job": "speech-7b",
        "now_s": 900.0,
        "dims": {"dp": dp, "pp": pp, "tp": tp},
        "order": ["tp", "dp", "pp"],
        "declared": True,
        "quiet_s": 0.0 if stopped is None else 4.0,
        "ranks": ranks,
        "waits": waits,
        "ends": [] if stopped is None else [stopped],
        "why": [] if stopped is None else [f"the waits of {count - 1} ranks end at rank {stopped}"],
        "nothing": "",
    }


def _waits(count: int, tp: int, stopped: int) -> list[dict[str, Any]]:
    first = stopped - stopped % tp
    near = [rank for rank in range(first, first + tp) if rank != stopped]
    far = [rank for rank in range(count) if rank != stopped and rank not in near]
    waits = [
        {"where": f"all_reduce #9 of [{first}, …]", "waiting": near, "lacking": [stopped]},
        {"where": "all_reduce #7", "waiting": far, "lacking": near or [stopped]},
    ]
    return [wait for wait in waits if wait["waiting"]]


def spans(
    ranks: int,
    *,
    steps: int = 20,
    step_s: float = 1.0,
    stopped: int | None = None,
    at_s: float = 12.0,
) -> dict[str, Any]:
    """As of `GET /jobs/{job}/spans`: steps of a forward, a backward and a collective; from `at_s`
    on `stopped` does nothing, and the others wait for it until the end."""
    found: list[dict[str, Any]] = []
    for rank in range(ranks):
        for step in range(steps):
            begin = step * step_s
            if stopped is not None and begin >= at_s:
                if rank != stopped:
                    left = steps * step_s - begin
                    told = {"name": "all_reduce", "took_s": left, "waited_s": left, "ended": False}
                    found.append(_span(rank, step, "collective", begin, **told))
                break
            found.append(_span(rank, step, "forward", begin, took_s=0.3 * step_s))
            found.append(_span(rank, step, "backward", begin + 0.3 * step_s, took_s=0.5 * step_s))
            told = {"name": "all_reduce", "took_s": 0.2 * step_s, "waited_s": 0.1 * step_s}
            found.append(_span(rank, step, "collective", begin + 0.8 * step_s, **told))
            found.append(_span(rank, step, "step", begin, took_s=step_s))
    return {
        "job": "speech-7b",
        "from_s": 0.0,
        "to_s": steps * step_s,
        "clock_error_s": {"node-0": 0.0004},
        "spans": found,
        "dropped": 0,
    }


def _span(rank: int, step: int, kind: str, start_s: float, **more: Any) -> dict[str, Any]:
    span = {"rank": rank, "attempt": 1, "node": f"node-{rank // 8}", "kind": kind, "step": step}
    return {**span, "start_s": start_s, **more}
