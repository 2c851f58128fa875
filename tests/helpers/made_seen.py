"""What others saw of a scenario on Kubernetes, made up: audit log, journal and all of `Seen`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from holdfast.driver.core.effects import Allocate, AnyEffect
from holdfast.driver.core.events import AnyEvent, DriverStarted, NodeAllocated
from holdfast.driver.ports import Entry
from holdfast.lab.chaos.injectors import Done
from holdfast.lab.chaos.kubernetes.seen import Seen
from holdfast.lab.kubernetes.proxy import Answered
from holdfast.lab.on_kubernetes import DRIVER
from holdfast.lab.replaying import Counts
from holdfast.protocol.forks import Fork

ALLOCATE = Allocate(job="j", node="node-1")


def entry(
    sequence: int,
    event: AnyEvent,
    *ordered: AnyEffect,
    term: int = 1,
    now: float = 0.0,
    at: str = "",
) -> Entry:
    return Entry(
        sequence=sequence,
        term=term,
        now=now,
        at=at,
        policy=1,
        event=event,
        effects=ordered,
        why="",
    )


STARTED = DriverStarted(term=1)
ALLOCATED = NodeAllocated(job="j", node="node-1", cause=1)
ONE_POD = [entry(1, STARTED, ALLOCATE), entry(2, ALLOCATED)]


def asked(what: str, said: str = "", **other: Any) -> dict[str, Any]:
    """One event of an audit log: the driver did `what`, with this in its User-Agent."""
    verb, _, resource = what.partition(" ")
    resource, _, subresource = resource.partition("/")
    about = {"resource": resource, "name": "node-1"}
    event = {
        "verb": verb,
        "user": {"username": DRIVER},
        "userAgent": f"holdfast-driver ({said})" if said else "holdfast-driver",
        "objectRef": about | ({"subresource": subresource} if subresource else {}),
        "responseStatus": {"code": 201},
        "annotations": {"authorization.k8s.io/decision": "allow"},
        "responseObject": {},
    }
    return event | other


def at(second: int) -> str:
    """A time as an audit log has it."""
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}.000000Z"


def at_s(second: int) -> float:
    return datetime.fromisoformat(at(second)).timestamp()


def forbidden(second: int) -> dict[str, Any]:
    decision = {"authorization.k8s.io/decision": "forbid"}
    refused = asked("create pods", responseStatus={"code": 403}, annotations=decision)
    return refused | {"requestReceivedTimestamp": at(second)}


CREATED = asked("create pods", "term=1 entry=1 Allocate node-1")


def seen(
    *audited: Mapping[str, Any],
    entries: Sequence[Entry] = (),
    forked: Sequence[Fork] = (),
    **other: Any,
) -> Seen:
    facts: dict[str, Any] = {
        "done": Done(said="", node="node-1"),
        "job": {},
        "lease": {},
        "nodes": {"node-1": {"spec": {}}},
        "pods": [],
        "settled": 1_000,
        "stored": [],
        "driver_starts": 1,
        "drivers_up": ["driver"],
        "api_starts": [],
        "driver_said": [],
        "answered": Answered(),
        "printed": {},
        "told": [],
        "repeated": Counts(),
    }
    return Seen(audited=audited, entries=entries, forked=forked, **(facts | other))
