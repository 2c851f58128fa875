"""What a Node object says, as a `Fact`; and whether a pod could run there at all. Pure.

Used by `cluster`. Must not judge a node: it passes on what the cluster and people say of it.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from holdfast.driver.adapters.kubernetes import names, requests
from holdfast.driver.ports import Fact

Json = Mapping[str, Any]

KEEPS_OFF = ("NoSchedule", "NoExecute")
"""Effects of a taint that keep a pod off which does not tolerate it."""

SETTLING = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
)
"""Taints that a controller takes off a moment after the node is Ready, or its cordon is taken off;
no scheduler uses it before.
"""


def fact_of(node: Json, now: datetime) -> Fact:
    """The fact of a Node. A cordon closes it to new work, as does that it has only just come or
    come back, or a problem that needs no test, as long as it is said; what runs there runs on. A
    notice of maintenance has what runs there move.
    """
    absent, distrust = _absence(node), distrust_of(node)
    notice, within_s = _notice(node, now)
    problem, conclusive = _problem(node)
    closed = distrust or _closure(node) or (problem.partition(":")[0] if conclusive else "")
    return Fact(
        node=node["metadata"]["name"],
        rack=node["metadata"].get("labels", {}).get(names.RACK, ""),
        machine=node.get("status", {}).get("nodeInfo", {}).get("systemUUID", ""),
        present=not absent,
        distrusted=distrust is not None,
        closed=closed,
        notice=notice,
        within_s=within_s,
        problem=problem,
        conclusive=conclusive,
        why=absent or closed,
    )


def gone(node: str) -> Fact:
    """The fact of a Node object that was deleted."""
    return Fact(node=node, present=False, why="its Node object is deleted")


def distrust_of(node: Json) -> str | None:
    """Why Holdfast distrusts the node; None where it has no taint of ours."""
    for taint in taints(node):
        if taint["key"] == names.TAINT:
            annotations = node["metadata"].get("annotations", {})
            return annotations.get(names.WHY) or f"it has the taint {names.TAINT}"
    return None


def untestable(node: Json, now: datetime) -> str:
    """Why a distrusted node is not to be tested now: what others say of it; "" where it may be."""
    return _absence(node) or _closure(node) or _problem(node)[0] or _notice(node, now)[0]


def ready(node: Json) -> bool:
    return not _absence(node)


def taints(node: Json) -> list[dict[str, Any]]:
    return node.get("spec", {}).get("taints") or []


def misfit(node: Json, pod: Json) -> str:
    """Why the pod cannot run on the node, whatever else runs there; "" where it could.

    The scheduler decides; this only spares everybody a wait whose end is known.
    """
    spec = pod["spec"]
    for taint in taints(node):
        if taint.get("effect") in KEEPS_OFF and not _tolerated(taint, spec.get("tolerations", ())):
            said = f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
            return f"its taint {said} is not tolerated"
    return lacking(node, requests.request_of_manifest(spec), {})


def lacking(node: Json, request: Mapping[str, int], used: Mapping[str, int]) -> str:
    """What the node has too little of, in thousandths `request`ed and `used` by others; "" if
    nothing. One that does not say how many pods it takes is believed to take any number.
    """
    offered = requests.amounts(node.get("status", {}).get("allocatable"))
    said = []
    for name, needed in request.items():
        there = offered.get(name, needed if name == requests.PODS else 0)
        free = there - used.get(name, 0)
        if 0 < needed > free:
            said.append(_too_little(name, needed, there, free))
    return "; ".join(said)


def _too_little(name: str, needed: int, there: int, free: int) -> str:
    if there <= 0:
        return f"it has no {name}"
    if free >= there:
        return f"of {name} it has {requests.said(there)}, and {requests.said(needed)} are needed"
    left = f"{requests.said(max(0, free))} of {requests.said(there)} are free"
    return f"it has no room: of {name} {left}, and {requests.said(needed)} are needed"


def _notice(node: Json, now: datetime) -> tuple[str, float | None]:
    """Why somebody wants the node free, and within how many seconds; "" where nobody does."""
    annotations = node["metadata"].get("annotations", {})
    by = annotations.get(names.MAINTENANCE_BY, "")
    why = annotations.get(names.MAINTENANCE) or ("maintenance" if by else "")
    if not why:
        told = [taint["key"] for taint in taints(node) if taint["key"] in names.MAINTENANCE_TAINTS]
        return (f"it has the taint {told[0]}" if told else ""), None
    if not by:
        return why, None
    try:
        left = datetime.fromisoformat(by) - now
    except (ValueError, TypeError):
        wrong = f"{names.MAINTENANCE_BY}: {by!r} is no time with its zone, as 2026-01-31T18:00:00Z"
        return f"{why} ({wrong})", None
    return f"{why} (by {by})", max(0.0, left.total_seconds())


def _problem(node: Json) -> tuple[str, bool]:
    """What problem detectors found, the worst first; whether it needs no test. "" if nothing."""
    found = []
    for condition in node.get("status", {}).get("conditions", ()):
        bad, conclusive = names.PROBLEMS.get(condition["type"], ("", False))
        if bad and condition["status"] == bad:
            said = condition.get("message") or condition.get("reason") or "no reason given"
            found.append((not conclusive, f"{condition['type']} is {bad}: {said}"))
    found.sort()
    return "; ".join(text for _, text in found), bool(found) and not found[0][0]


def _closure(node: Json) -> str:
    """Why the cluster puts no new work there; "" where it does."""
    if node.get("spec", {}).get("unschedulable"):
        return "it is cordoned"
    settling = [taint["key"] for taint in taints(node) if taint["key"] in SETTLING]
    return f"it has the taint {settling[0]} yet" if settling else ""


def _absence(node: Json) -> str:
    """Why the node does not count as there; "" while it does."""
    if node["metadata"].get("deletionTimestamp"):
        return "its Node object is being deleted"
    for condition in node.get("status", {}).get("conditions", ()):
        if condition["type"] == "Ready":
            if condition["status"] == "True":
                return ""
            said = condition.get("message") or condition.get("reason") or "no reason given"
            return f"Ready is {condition['status']}: {said}"
    return "it has not said yet that it is ready"


def _tolerated(taint: Json, tolerations: Iterable[Json]) -> bool:
    """The rule of `k8s.io/api/core/v1` Toleration.ToleratesTaint."""
    return any(
        each.get("effect") in (None, "", taint["effect"])
        and each.get("key") in (None, "", taint["key"])
        and (each.get("operator") == "Exists" or each.get("value", "") == taint.get("value", ""))
        for each in tolerations
    )
