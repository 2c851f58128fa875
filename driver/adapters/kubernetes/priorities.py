"""Whom a pod would push off its node, by the PriorityClasses that there are. Pure.

Used by `room`, by the rules of the API server's admission and the scheduler's preemption.
"""

from collections.abc import Mapping
from math import inf
from typing import Any

Json = Mapping[str, Any]

NOBODY = -inf
"""The least priority of those that stay beside a pod which pushes nobody off: all of them."""


def least_that_stays(spec: Json, classes: Mapping[str, Json]) -> float | None:
    """The least priority of pods that this one, by its `spec` as it is posted, could not push off;
    None where its class is not known. `classes`: PriorityClasses by name.
    """
    named = spec.get("priorityClassName", "")
    found = classes.get(named) if named else _default(classes)
    if found is None:
        return None if named else 0
    never = found.get("preemptionPolicy") == "Never"
    return NOBODY if never else int(found["value"])


def _default(classes: Mapping[str, Json]) -> Json | None:
    """The class of pods that name none: of several the least, as the API server takes it."""
    defaults = [each for each in classes.values() if each.get("globalDefault")]
    return min(defaults, key=lambda each: int(each["value"]), default=None)
