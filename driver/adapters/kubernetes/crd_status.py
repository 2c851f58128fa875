"""The status of a `TrainingJob` as a schema, and the columns of `kubectl get`. Plain data.

Used by `crd`. What is written into it is made by `status`; people and other controllers read it.
"""

from typing import Any

Schema = dict[str, Any]

MAX_NODES = 101_000
"""Nodes and standbys of the largest job that the spec allows."""
WORDS = 32_768


def _text(says: str, longest: int = 64) -> Schema:
    return {"type": "string", "description": says, "maxLength": longest}


def _number(says: str) -> Schema:
    return {"type": "integer", "format": "int64", "description": says, "minimum": 0}


def _names(says: str) -> Schema:
    items = {"type": "string", "maxLength": 253}
    return {"type": "array", "description": says, "maxItems": MAX_NODES, "items": items}


def _object(says: str, properties: dict[str, Schema], required: list[str]) -> Schema:
    made = {"type": "object", "description": says, "properties": properties}
    return made | ({"required": required} if required else {})


_CONDITION = _object(
    "One thing that is so, is not so, or is not known.",
    {
        "type": _text("What it is about, e.g. Running.", 316),
        "status": {
            "type": "string",
            "description": "Whether it is so.",
            "enum": ["True", "False", "Unknown"],
        },
        "observedGeneration": _number("Generation of the spec that this was said of."),
        "lastTransitionTime": {
            "type": "string",
            "format": "date-time",
            "description": "When its status turned last.",
        },
        "reason": _text("Why, in a word for programs.", 1_024) | {"minLength": 1},
        "message": _text("Why, in a sentence for people.", WORDS),
    },
    ["type", "status", "lastTransitionTime", "reason", "message"],
)
_CONDITIONS = {
    "type": "array",
    "description": "Accepted, Allocated, Running, Recovering, Suspended, Succeeded, Failed, "
    "StoreShared.",
    "maxItems": 16,
    "items": _CONDITION,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
}
_INCIDENT = _object(
    "The open incident, else the newest one.",
    {
        "number": _number("Its number, for `holdfast why`."),
        "kind": _text("What it is, in a word."),
        "summary": _text("What happened, in a sentence.", WORDS),
        "open": {"type": "boolean", "description": "Whether the job is still recovering from it."},
        "evicted": _names("Nodes that were evicted for it."),
    },
    [],
)
STATUS = _object(
    "What is so. Written by Holdfast from its journal; nothing is read back from it.",
    {
        "observedGeneration": _number("Generation of the spec that this status is about."),
        "phase": _text("Where the job is in its life, in one word for people."),
        "message": _text("The last decision, or what it waits for, in a sentence.", WORDS),
        "ready": _text("Pods that are ready, of those that it is to have: `4/5`."),
        "step": _number("Furthest training step that every rank completed."),
        "storedStep": _number(
            "Step of the newest whole checkpoint that its store is known to have."
        ),
        "loss": _text("Newest loss that the ranks told."),
        "tokensPerSecond": _text("Newest rate that the ranks told."),
        "mfu": _text("Model FLOPs utilization, a part of 1, where it is known."),
        "stepSeconds": _text("Median seconds of a step."),
        "attempt": _number("How often its ranks were started since it was submitted."),
        "restarts": _number("Recoveries that its budgets were charged with."),
        "lastRecoverySeconds": _text("Seconds without progress in the newest recovery."),
        "incident": _INCIDENT,
        "nodes": _names("Nodes that carry its ranks."),
        "standbys": _names("Nodes that are held warm beside it."),
        "conditions": _CONDITIONS,
    },
    [],
)


def _column(name: str, kind: str, path: str, *, wide: bool = False) -> Schema:
    """`wide`: shown by `kubectl get -o wide` alone."""
    column: Schema = {"name": name, "type": kind, "jsonPath": path}
    return {**column, "priority": 1} if wide else column


COLUMNS = [
    _column("State", "string", ".status.phase"),
    _column("Ready", "string", ".status.ready"),
    _column("Step", "integer", ".status.step"),
    _column("Restarts", "integer", ".status.restarts"),
    _column("Last recovery (s)", "string", ".status.lastRecoverySeconds"),
    _column("Age", "date", ".metadata.creationTimestamp"),
    _column("Message", "string", ".status.message", wide=True),
]
