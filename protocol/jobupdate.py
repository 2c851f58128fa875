"""What of a job's spec another version of it may have otherwise. Pure.

Asked by the driver's edge, by its operator and by the rules of the CRD. What its ranks are laid out
by, where its checkpoints lie and what its pods are made of stay as they were submitted.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.protocol.mistakes import Mistake, shown

MAY_CHANGE = ("command", "workdir", "env", "checkpoint", "recovery", "timeouts", "logRules", "ttlS")
STAYS_IN = {"checkpoint": ("storeUrl", "beginFrom")}
"""Of what may change, what may not."""

Spec = Mapping[str, Any]


def changed(before: Spec, after: Spec) -> tuple[str, ...]:
    """The fields that are other, outermost names alone; both specs have all their defaults."""
    names = sorted(before.keys() | after.keys())
    return tuple(name for name in names if before.get(name) != after.get(name))


def refused(before: Spec, after: Spec) -> tuple[str, ...]:
    """Of those, the ones that have to stay, such as `nodes` or `checkpoint.storeUrl`."""
    return tuple(_stays(before, after))


def _stays(before: Spec, after: Spec) -> Iterator[str]:
    for name in changed(before, after):
        if name not in MAY_CHANGE:
            yield name
            continue
        for inner in STAYS_IN.get(name, ()):
            field = f"{name}.{inner}"
            if _at(before, field) != _at(after, field):
                yield field


def mistakes(before: Spec, after: Spec) -> list[Mistake]:
    """One for each field that has to stay."""
    return [
        Mistake(
            field=f"spec.{field}",
            value=shown(_at(after, field)),
            why=f"it is {shown(_at(before, field))} for as long as the job lives.",
            fix="Change it back, or submit another job (checkpoint.beginFrom goes on from this).",
        )
        for field in refused(before, after)
    ]


def _at(spec: Spec, field: str) -> Any:
    value: Any = spec
    for name in field.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
