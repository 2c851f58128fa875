"""From journal entries to the story of a job, a node or an incident: sentences, with their causes.

Called with the entries of whatever is asked about, by REST, the command line and the simulator.
Pure. Every line is from an entry or its evidence; what changed nothing for the reader (a node is
quiet, a call went well) is left out.
"""

from collections.abc import Iterable, Iterator

import msgspec

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Instruct
from holdfast.driver.core.gather import summary
from holdfast.driver.core.model import Exited, Incident
from holdfast.driver.ports import Entry
from holdfast.protocol.messages import DiagnosticResult


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence. `seen`: an observation, else a decision. `cause`: the entry that led to it."""

    sequence: int
    at: str  # time of day, for people
    now: float  # driver seconds
    text: str
    seen: bool = False
    cause: int | None = None
    incident: int | None = None


QUIET_EVENTS = (
    e.NodeAllocated,
    e.NodeReleased,
    e.NodeDistrusted,
    e.NodeTrusted,
    e.NodeQuiet,
    e.StoreReady,
    e.RanksRunning,
    e.ExecutorConnected,
    e.NodeAppeared,
)
"""Events that are told only where something was decided on them."""


def lines_of(entries: Iterable[Entry]) -> tuple[Line, ...]:
    """The story of these entries, in order."""
    return tuple(line for entry in entries for line in _lines(entry))


def timeline(incident: Incident) -> tuple[tuple[str, float], ...]:
    """How long each part of the recovery took, in order; only those that it had."""
    marks = (
        ("suspend", incident.suspended_s),
        ("diagnose", incident.diagnosed_s),
        ("replace", incident.replaced_s),
        ("restore", incident.restored_s),
        ("resume", incident.resumed_s),
    )
    spans, last_s = [], incident.found_s
    for name, at_s in marks:
        if at_s is not None:
            spans.append((name, max(0.0, at_s - last_s)))
            last_s = max(last_s, at_s)
    return tuple(spans)


def _lines(entry: Entry) -> Iterator[Line]:
    told = list(dict.fromkeys(seen(entry.event)))
    for text in told:
        yield _line(entry, text, seen=True)
    acted = any(not isinstance(effect, Instruct) for effect in entry.effects)
    quiet = isinstance(entry.event, QUIET_EVENTS) and not acted
    decided = [part for part in entry.why.split("; ") if part not in told]
    if decided and not quiet:
        yield _line(entry, "; ".join(decided), seen=False)


def _line(entry: Entry, text: str, *, seen: bool) -> Line:
    return Line(
        sequence=entry.sequence,
        at=entry.at,
        now=entry.now,
        text=text,
        seen=seen,
        cause=entry.event.cause,
        incident=entry.incident,
    )


def seen(event: e.AnyEvent) -> Iterator[str]:
    """What the event says that somebody saw, in sentences."""
    match event:
        case e.Found(finding=finding):
            yield from (f"{piece.source}: {piece.text}" for piece in finding.evidence)
        case e.RanksExited():
            yield from _exits(event)
        case e.DiagnosticEnded(results=results):
            yield from (_measured(result) for result in results)
        case e.ClusterCallFailed(call=call, node=node, why=why):
            yield f"the cluster would not {call} {node}: {why}"
        case e.DesiredRefused(node=node, why=why):
            yield f"executor of {node}: {why}"
        case _:
            return


def _exits(event: e.RanksExited) -> Iterator[str]:
    for status in event.exits:
        yield summary(Exited(node=event.node, status=status))


def _measured(result: DiagnosticResult) -> str:
    members = "-".join(result.members) or result.node
    if result.ok and result.value is not None:
        return f"{result.test} {members}: {result.value:g} {result.unit}".rstrip()
    word = {True: "passed", False: "failed", None: "could not be run"}[result.ok]
    return f"{result.test} {members}: {word}{f', {result.detail}' if result.detail else ''}"
