"""The marks of a node that Holdfast distrusts: taint, condition, annotations; as patches. Pure.

Used by `cluster`. The taint alone is the decision, the rest says who, why, when. Only marks of ours
are written or taken away, each patch with what it must not overwrite as its precondition.
"""

from collections.abc import Mapping
from typing import Any

from holdfast.driver.adapters.kubernetes import facts, names, notes
from holdfast.kubeapi import paths

Json = Mapping[str, Any]
Patch = dict[str, Any]

MAX_MESSAGE_CHARACTERS = 1_024
"""Of a condition: what a person reads in `kubectl describe node`."""


def distrust(node: Json, *, incident: int, reason: str, at: str) -> Patch:
    """Merge patch of the Node: our taint beside those of others, refused where it has changed.

    `at` is RFC 3339. A list cannot be merged, hence the resourceVersion.
    """
    ours = {"key": names.TAINT, "value": f"incident-{incident}", "effect": "NoSchedule"}
    annotations = {
        names.BY: names.MANAGER,
        names.WHY: reason,
        names.SINCE: at,
        names.INCIDENT: str(incident),
    }
    return _patch(node, [*_of_others(node), ours], annotations)


def trust(node: Json) -> Patch | None:
    """Merge patch of the Node without our marks; None where it has none."""
    annotated = node["metadata"].get("annotations", {})
    annotations = {mark: None for mark in names.MARKS if mark in annotated}
    if not annotations and facts.distrust_of(node) is None:
        return None
    return _patch(node, _of_others(node), annotations)


def condition(*, distrusted: bool, why: str, at: str) -> Patch:
    """Strategic merge patch of the Node's status: conditions of others stay as they are."""
    said = {
        "type": names.CONDITION,
        "status": "True" if distrusted else "False",
        "reason": "Evicted" if distrusted else "Restored",
        "message": why[:MAX_MESSAGE_CHARACTERS],
        "lastHeartbeatTime": at,
        "lastTransitionTime": at,
    }
    return {"status": {"conditions": [said]}}


def says(node: Json, condition: Patch) -> bool:
    """Whether the Node has this condition already, whenever it turned: said anew it would seem to
    turn again.
    """
    (wanted,) = condition["status"]["conditions"]
    told = ("type", "status", "reason", "message")
    return any(
        all(each.get(field) == wanted[field] for field in told)
        for each in node.get("status", {}).get("conditions", ())
    )


def denies(node: Json, condition: Patch) -> bool:
    """Whether the Node says the opposite of this condition."""
    (wanted,) = condition["status"]["conditions"]
    found = node.get("status", {}).get("conditions", ())
    told = [each["status"] for each in found if each.get("type") == wanted["type"]]
    return told not in ([], [wanted["status"]])


def marked(node: Json, *, incident: int) -> bool:
    """Whether it has our taint for this incident already."""
    return any(
        taint["key"] == names.TAINT and taint.get("value") == f"incident-{incident}"
        for taint in facts.taints(node)
    )


def taken_off(node: Json) -> bool:
    """Whether somebody took our taint off, and left what says why it was there."""
    annotations = node["metadata"].get("annotations", {})
    return names.INCIDENT in annotations and facts.distrust_of(node) is None


def came_back(node: Json, *, reason: str, at: str, name: str) -> dict[str, Any]:
    """Event on a Node whose taint somebody took off: why it is there again, and what to type. `at`:
    RFC 3339 with microseconds. Events about what is in no namespace are in `paths.DEFAULT`.
    """
    metadata = node["metadata"]
    note = (
        f"To have the node used again: holdfast nodes restore {metadata['name']} --reason WHY. "
        f"The taint {names.TAINT} is there again, for Holdfast still distrusts it: {reason}"
    )
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": paths.DEFAULT},
        "eventTime": at,
        "reportingController": f"{names.GROUP}/driver",
        "reportingInstance": names.MANAGER,
        "action": "Distrust",
        "reason": "DistrustedAgain",
        "type": "Warning",
        "note": notes.short(note),
        "regarding": {
            "apiVersion": "v1",
            "kind": "Node",
            "name": metadata["name"],
            "uid": metadata.get("uid", ""),
        },
    }


def _of_others(node: Json) -> list[dict[str, Any]]:
    return [taint for taint in facts.taints(node) if taint["key"] != names.TAINT]


def _patch(node: Json, taints: list[dict[str, Any]], annotations: Mapping[str, Any]) -> Patch:
    metadata = {"resourceVersion": node["metadata"]["resourceVersion"], "annotations": annotations}
    return {"metadata": metadata, "spec": {"taints": taints or None}}
