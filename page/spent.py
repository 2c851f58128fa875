"""Words and a bar for where the time of a job went. Pure.

Used by `status`, `goodput`, the page of a job, and at the end of `holdfast run`.
"""

from collections.abc import Mapping
from typing import Any

from holdfast.page.words import duration

WORDS = {
    "kept": "training that was kept",
    "repeated": "training done again",
    "save": "its last step on its way to the store",
    "detect": "until a fault was found",
    "decide": "until it was judged",
    "stop": "ending ranks",
    "diagnose": "testing nodes",
    "wait": "waiting for nodes",
    "rendezvous": "until ranks may start: imports, and where they meet and begin",
    "fork": "starting ranks",
    "group": "until ranks had met",
    "restore": "loading the state",
    "first_step": "until the first step was done",
    "queued": "queued",
    "suspended": "suspended by a person",
    "unseen": "ranks ran, and nobody saw a step",
    "unknown": "not known",
}
"""What each bucket is. One of a later driver is shown by its name."""

BRIEF = {
    "kept": "kept",
    "repeated": "done again",
    "save": "saving",
    "detect": "detecting",
    "decide": "judging",
    "stop": "stopping",
    "diagnose": "testing",
    "wait": "waiting for nodes",
    "rendezvous": "getting ready",
    "fork": "starting",
    "group": "connecting",
    "restore": "restoring",
    "first_step": "first step",
    "queued": "queued",
    "suspended": "suspended",
    "unseen": "unseen",
    "unknown": "not known",
}
BAR = 30
FULL, AGAIN, LOST, NO_LOSS = "█", "▓", "░", "·"
SIGNS = {"kept": FULL, "repeated": AGAIN, "suspended": NO_LOSS, "unseen": " ", "unknown": " "}
TOLD = 4
"""Buckets that a line has room for."""


def share(part_s: float, whole_s: float) -> str:
    """`96.3 %`; never 100 % of what was less."""
    if whole_s <= 0:
        return ""
    percent = 100 * part_s / whole_s
    return f"{min(percent, 99.9) if part_s < whole_s else percent:.1f} %"


def bar(buckets_s: Mapping[str, float], width: int = BAR) -> str:
    """One sign for each part of the time, in the order of the buckets."""
    whole_s, at_s, drawn = sum(buckets_s.values()), 0.0, ""
    for bucket, took_s in buckets_s.items():
        at_s += took_s
        sign = SIGNS.get(bucket, LOST)
        drawn += sign * (round(at_s / whole_s * width) - len(drawn))
    return drawn


def headline(told: Mapping[str, Any]) -> str:
    """`18 min, ETTR at least 0.912`."""
    if told["ettr"] is None:
        return "no time that it was to run yet"
    least = "at least " if told["not_known"] else ""
    return f"{duration(told['wall_s'])}, ETTR {least}{told['ettr']:.3f}"


def line(told: Mapping[str, Any]) -> str:
    """`█████▓░░ 91.2 % kept · 3.1 s done again · 2.0 s detecting`; "" before there is any time."""
    buckets_s, wall_s = told["buckets_s"], told["wall_s"]
    if wall_s <= 0:
        return ""
    kept = f"{share(buckets_s.get('kept', 0.0), wall_s)} kept"
    return " · ".join([f"{bar(buckets_s)} {kept}", *most(buckets_s)])


def most(buckets_s: Mapping[str, float]) -> list[str]:
    """`3.1 s done again`: those that took most, but for what was kept."""
    others = sorted(
        ((took_s, bucket) for bucket, took_s in buckets_s.items() if bucket != "kept"),
        reverse=True,
    )
    told = [f"{duration(s)} {BRIEF.get(bucket, bucket)}" for s, bucket in others[:TOLD]]
    rest_s = sum(took_s for took_s, _ in others[TOLD:])
    return [*told, f"{duration(rest_s)} else"] if rest_s else told


def cost(told: Mapping[str, Any]) -> str:
    """`cost 11 s: 5.6 s done again, 5.1 s detecting`, of one incident of a job."""
    return f"cost {duration(told['lost_s'])}: {', '.join(most(told['buckets_s']))}"


def shares(told: Mapping[str, Any], by: str) -> list[dict[str, Any]]:
    """Of the time of all jobs: kinds or nodes, each with its `share` of what was lost, in words."""
    return [{**each, "share": share(each["lost_s"], told["lost_s"])} for each in told[by]]


def lost_to_faults(told: Mapping[str, Any]) -> str:
    """`time: 96.3 % of 18 min kept; faults cost 40 s: 20 s done again, 6.0 s detecting`; "" where
    none cost any."""
    total: dict[str, float] = {}
    for incident in told["incidents"]:
        for bucket, took_s in incident["buckets_s"].items():
            total[bucket] = total.get(bucket, 0.0) + took_s
    if not total:
        return ""
    kept = share(told["buckets_s"].get("kept", 0.0), told["wall_s"])
    cost = f"faults cost {duration(sum(total.values()))}: {', '.join(most(total))}"
    return f"time: {kept} of {duration(told['wall_s'])} kept training; {cost}"
