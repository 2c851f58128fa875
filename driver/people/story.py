"""From journal entries to the story of a job, a node or an incident: sentences, with their causes.

Called with the entries of whatever is asked about, by REST and by the command line. Pure. Every
line is from an entry or its evidence. What somebody saw comes before what was decided on it; what
changed nothing for the reader (a node has no rank left, a peer's death took one with it) is not.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile

import msgspec

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Distrust
from holdfast.driver.core.state.model import Incident
from holdfast.driver.noted import RESTATED
from holdfast.driver.people.story_exits import Ends
from holdfast.driver.ports import Entry
from holdfast.protocol.faults import Evidence
from holdfast.protocol.messages import DiagnosticResult


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence. `seen`: it happened, and `source` saw it, or the driver itself
    where that is empty; else it was decided."""

    sequence: int
    at: str  # time of day, for people
    text: str
    seen: bool = False
    source: str = ""
    verdict: str = ""  # what follows from it, where something does
    cause: int | None = None  # the entry that led to it
    incident: int | None = None


WANTED = (
    *(e.SuspendRequested, e.ResumeRequested, e.StopRequested, e.DeleteRequested),
    e.NodeRestoreRequested,
)
"""Events that are a person's wish, told as one."""

FACTS: Mapping[type[e.Event], str] = {
    e.JobSubmitted: r"\S+ is submitted.*",
    e.UpdateRequested: r".+ gives \S+ version \d+, which changes .*|.+ changes .+ of \S+",
    **dict.fromkeys(
        WANTED,
        r".+ wants \S+ (suspended|to go on( from .*)?|stopped|deleted|used again: .*)"
        r"|\S+ is being suspended .*|no checkpoint of \S+ is .*|\S+ goes on from step \d+, .*",
    ),
    e.RanksRunning: r"\S+ runs",
    e.RanksExited: r"\S+ is done: .*",
    e.StepsRepeated: r"\S+ began again .*",
    e.SaveProgressed: r"[\d,]+ [kM]B of the last step of .*",
    e.ProgressSeen: r".*, (the furthest so far|further than ever)|\S+ trains.*",
    e.NodeVanished: r"the cluster says that .*",
    e.NodeMaintainRequested: r"\S+ is to be free.*",
    **dict.fromkeys(
        (e.NodeFactTold, e.JobFactTold),
        r".+ (accuses|clears|notes of) \S+.*|what was held against \S+ counts no more"
        r"|a person keeps \S+ out, .*|the tests of \S+ are due",
    ),
    **dict.fromkeys(
        (e.DiagnoseRequested, e.DiagnoseEndRequested), r".+ wants .* tested|the tests of .*"
    ),
    e.CalibrateRequested: r"nodes have to reach .*",
    **dict.fromkeys((e.BrakeApplyRequested, e.BrakeReleaseRequested), r"the brake is .*"),
    e.ExecutorEnding: r"\S+ is to be free.*",
    e.NodeAppeared: r"\S+ (is there again.*|is to be free.*|need not be free any more)",
    e.ExecutorStarved: r"all ranks on .*",
    e.ExecutorDisconnected: r"the executor of \S+ has no connection",
    e.StacksTaken: r"stacks: .*",
    e.StacksFailed: r"no stacks: .*",
    e.DriverStarted: r"a driver took over.*",
}
"""What the core says of the event itself, and a reader wants to know."""


_WAITS = re.compile(r"(?P<job>\S+) waits: ")
_SEARCHES = re.compile(r"(?P<job>\S+) waits: its checkpoint store.* is still being searched: ")
SOON_S = 1.0
"""A search of a store that takes no longer is none that a reader has to know of."""


def about(subjects: Container[str], why: str, jobs: Container[str]) -> str:
    """The reasons of an entry, without what others of its `jobs` wait for."""
    parts = [(part, _WAITS.match(part)) for part in why.split("; ")]
    kept = [part for part, waits in parts if not waits or _is_told(waits["job"], subjects, jobs)]
    return "; ".join(kept)


def _is_told(job: str, subjects: Container[str], jobs: Container[str]) -> bool:
    return job in subjects or job not in jobs


def lines_of(
    entries: Sequence[Entry],
    incidents: Iterable[Incident] = (),
    *,
    whole: bool = False,
    subjects: Container[str] | None = None,
) -> tuple[Line, ...]:
    """The story of these entries, in order, with the evidence that opened their incidents.

    `whole`: with everything that is left out else. `subjects`: jobs and nodes whose story it is.
    """
    known = tuple(incidents)
    ends = Ends(entries, known)
    opened = {incident.opened: incident for incident in known}
    lines: list[Line] = []
    for at, entry in enumerate(entries):
        incident = opened.get(entry.sequence)
        told = [*_seen(entry, ends), *_evidence(entry, incident, ends)]
        if isinstance(entry.event, e.RanksExited):
            told = [msgspec.structs.replace(line, incident=ends.incident(entry)) for line in told]
        cause = incident.summary if incident is not None and told else ""
        why = ends.without_causes(entry, cause)
        why = why if subjects is None else about(subjects, why, entry.jobs)
        why = why if whole else _without_short_search(entries, at, why)
        for line in (*told, *_reasons(entry, why, whole=whole)):
            if not lines or (lines[-1].text, lines[-1].seen) != (line.text, line.seen):
                lines.append(line)
    return tuple(lines)


def _without_short_search(entries: Sequence[Entry], at: int, why: str) -> str:
    """The reasons without a wait for a store whose job starts so soon that nobody waited."""
    parts = why.split("; ")
    searches = {part: found["job"] for part in parts if (found := _SEARCHES.match(part))}
    if not searches:
        return why
    until_s = entries[at].now + SOON_S
    soon = takewhile(lambda later: later.now < until_s, islice(entries, at + 1, None))
    told = "; ".join(later.why for later in soon)
    return "; ".join(p for p in parts if f"{searches.get(p)} starts attempt" not in told)


def timeline(incident: Incident) -> dict[str, float]:
    """Seconds that each stage of the last recovery took, in order; only those that it had."""
    again = incident.stepped_s is not None and incident.steps_lost
    marks = {
        "stop": incident.suspended_s,
        "diagnose": incident.diagnosed_s,
        "replace": incident.replaced_s,
        "rendezvous": incident.seated_s,
        "fork": incident.restored_s,
        "group": incident.grouped_s,
        "restore": incident.loaded_s,
        "step": incident.stepped_s if again else incident.resumed_s,
        "redo": incident.resumed_s if again else None,
    }
    first = incident.anew_s is None
    spans, last_s = {}, incident.found_s if incident.anew_s is None else incident.anew_s
    if first and incident.stalled_s:
        spans["detect"] = round(incident.stalled_s, 3)
    if incident.seen_s is not None:
        spans["decide"] = round(max(0.0, last_s - incident.seen_s), 3)
    for name, at_s in marks.items():
        if at_s is not None:
            spans[name] = round(max(0.0, at_s - last_s), 3)
            last_s = max(last_s, at_s)
    return spans


# ---------------------------------------------------------------- what was seen


def _seen(entry: Entry, ends: Ends) -> Iterator[Line]:
    """What the event says that somebody saw."""
    match entry.event:
        case e.Found(finding=finding):
            yield from _pieces(entry, finding.evidence, finding.summary)
        case e.RanksExited():
            for source, text in ends.told(entry):
                yield _line(entry, text, source=source)
        case e.DiagnosticEnded(node=node, results=results):
            yield _line(
                entry,
                _measured(results) or "no result",
                source=f"tests of {node}",
                verdict=_bad(entry),
            )
        case e.ClusterCallFailed(call=call, node=node, why=why):
            yield _line(entry, f"it would not {call} {node}: {why}", source="cluster")
        case e.DesiredRefused(node=node, why=why):
            yield _line(entry, why, source=f"executor of {node}")
        case _:
            return


def _evidence(entry: Entry, incident: Incident | None, ends: Ends) -> Iterator[Line]:
    """What opened the incident, where the event itself has not told it."""
    if incident is None or isinstance(entry.event, e.Found):
        return
    new = [piece for piece in incident.evidence if not ends.knows(piece.text)]
    then = [piece for piece in new if piece.source != "diagnosis"]  # tests came later
    yield from _pieces(entry, then, incident.summary if then else "")


def _pieces(entry: Entry, evidence: Sequence[Evidence], summary: str) -> Iterator[Line]:
    """One line each, the last with what follows from all of them."""
    if not evidence and summary:
        yield _line(entry, summary, source="detector")
    for piece in evidence[:-1]:
        yield _line(entry, piece.text, source=piece.source)
    for piece in evidence[-1:]:
        verdict = _verdict(evidence, summary)
        yield _line(entry, piece.text, source=piece.source, verdict=verdict)


def _verdict(evidence: Sequence[Evidence], summary: str) -> str:
    if len({piece.source for piece in evidence}) > 1 and summary.partition(":")[0].endswith("lost"):
        return "two sources agree"
    texts = [piece.text for piece in evidence]
    return "" if any(summary in text for text in texts) else summary


def _measured(results: Sequence[DiagnosticResult]) -> str:
    """`compute: 11.9 GFLOP/s, then 12.3 GFLOP/s; allreduce with n1: failed`."""
    found: dict[str, list[str]] = {}
    for result in results:
        others = [member for member in result.members if member != result.node]
        what = f"{result.test} with {', '.join(others)}" if others else result.test
        found.setdefault(what, []).append(_figure(result))
    return "; ".join(
        f"{what}: {', then '.join(dict.fromkeys(each))}" for what, each in found.items()
    )


def _figure(result: DiagnosticResult) -> str:
    if result.ok and result.value is not None:
        return f"{result.value:.4g} {result.unit}".rstrip()
    word = {True: "passed", False: "failed", None: "could not be run"}[result.ok]
    return f"{word}{f', {result.detail}' if result.detail else ''}"


def _bad(entry: Entry) -> str:
    """Whom the tests convict, and of what."""
    orders = [effect for effect in entry.effects if isinstance(effect, Distrust)]
    return "; ".join(f"{order.node}: {order.reason}" for order in orders)


# ---------------------------------------------------------------- what was decided


def _reasons(entry: Entry, why: str, *, whole: bool) -> Iterator[Line]:
    """What happened, then the decisions. `why`: the entry's reasons, less what was told already."""
    kind = type(entry.event)
    parts = [part for part in why.split("; ") if part]
    if not whole:
        parts = [part for part in parts if not re.fullmatch(RESTATED.get(kind, "(?!)"), part)]
    fact = re.compile(FACTS.get(kind, "(?!)") + (f"|{RESTATED[kind]}" if kind in RESTATED else ""))
    facts = [part for part in parts if fact.fullmatch(part)]
    decided = [part for part in parts if part not in facts]
    if facts:
        yield _line(entry, "; ".join(facts))
    if decided:
        yield _line(entry, "; ".join(decided), seen=False)


def _line(
    entry: Entry, text: str, *, seen: bool = True, source: str = "", verdict: str = ""
) -> Line:
    return Line(
        sequence=entry.sequence,
        at=entry.at,
        text=text,
        seen=seen,
        source=source,
        verdict=verdict,
        cause=entry.event.cause,
        incident=entry.incident,
    )
