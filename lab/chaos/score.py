"""What an injection is worth: made of facts that others looked up. Pure.

Called by `chaos.play`. Scored as docs/faults.md says: right class, right node, nobody innocent
evicted, how long, how much lost, and the losses bit for bit.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.lab.chaos.injectors import Done
from holdfast.lab.chaos.scenarios import Expected
from holdfast.lab.outcome import Incident, Outcome, rounded, victims

Line = Mapping[str, Any]
"""Of the job's story."""


class Score(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `holdfast chaos run --json`. Seconds count from the fault; None: not so."""

    fault: str
    passed: bool
    detected_s: float | None
    """Until the journal has what was decided on it; of a bad part: until the tests name that."""
    blame: str
    blame_right: bool
    innocent_evicted: int
    down_s: float | None
    """Until the first new step after the last recovery."""
    steps_lost: int | None
    steps_lost_told: int | None
    """What the driver says of it, over all incidents: to be compared with the ranks' own count."""
    loss_equal_bitwise: bool | None
    not_looked_at: tuple[str, ...] = ()
    """What would have been held against it, had those who saw it shown what they saw."""


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """In its place, for a fault that cannot be done here: neither passed nor failed."""

    fault: str
    passed: None = None
    skipped: str
    """Why, in a sentence."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one injection."""

    fault: str
    expected: Expected
    done: Done
    phase: str  # how the job ended
    incidents: Sequence[Incident]
    story: Sequence[Line]
    marked: Sequence[str] = ()  # nodes on which somebody else saw the mark of an eviction
    wrong: Sequence[str] = ()  # what else was not as it has to be, in sentences
    not_looked_at: tuple[str, ...] = ()  # what else would have to be so, and nobody shows
    steps_lost: int  # counted from what the ranks left, not from what the driver says
    loss_equal_bitwise: bool | None


def score(facts: Facts) -> Score:
    """Pass or not, and by how much."""
    expected = facts.expected
    outcome = Outcome.of(facts.incidents, facts.done, expected)
    right = _blame_right(facts, outcome.acted)
    told = outcome.steps_lost or 0
    unhurt = {*facts.marked} - {*victims(facts.done, expected)}
    innocent = unhurt | {*outcome.innocent}
    passed = (
        facts.phase == expected.phase
        and right
        and not innocent
        and not facts.wrong
        and len(outcome.acted) <= expected.incidents
        and (not expected.must_evict or facts.done.node in outcome.evicted)
        and facts.steps_lost <= expected.most_steps_lost
        and abs(told - facts.steps_lost) <= expected.told_within_steps
        and facts.loss_equal_bitwise is not False
    )
    return Score(
        fault=facts.fault,
        passed=passed,
        detected_s=rounded(detected_s(expected, facts.done, facts.incidents, facts.story)),
        blame="; ".join(_blame(incident) for incident in outcome.acted),
        blame_right=right,
        innocent_evicted=len(innocent),
        down_s=rounded(down_s(facts.done, outcome, facts.story)),
        steps_lost=facts.steps_lost,
        steps_lost_told=told,
        loss_equal_bitwise=facts.loss_equal_bitwise,
        not_looked_at=tuple(facts.not_looked_at),
    )


def _blame_right(facts: Facts, acted: Sequence[Incident]) -> bool:
    """Whether an incident names what was hurt, and nothing was found where nothing was.

    It has to be the first one; of a bad part, the first whose evidence has that. Where one incident
    has to cover several nodes, lost at once, any of them may be the one that it names.
    """
    expected = facts.expected
    if not acted or not expected.incident:
        return not acted and not expected.incident
    together = facts.done.also if expected.incidents == 1 else ()
    named = next((each for each in acted if _names_part(facts, each)), None)
    return (
        named is not None
        and named["blame"] in expected.blame
        and (not expected.names_node or named["node"] in (facts.done.node, *together))
        and (not expected.names_rank or named["rank"] == facts.done.rank)
    )


def _names_part(facts: Facts, incident: Incident) -> bool:
    """Whether the evidence says which part of the victim's node is bad, where it has to."""
    part = f"{facts.done.node}'s {facts.expected.part}"
    texts = [piece["text"] for piece in incident["evidence"]]
    return not facts.expected.part or any(part in text for text in texts)


def _blame(incident: Incident) -> str:
    rank = "" if incident["rank"] is None else f" rank {incident['rank']}"
    return f"{incident['kind']} {incident['node'] or 'nobody'}{rank} ({incident['blame']})"


def detected_s(
    expected: Expected, done: Done, incidents: Sequence[Incident], story: Sequence[Line]
) -> float | None:
    """Until the first decision on the first that acted, or until the bad part was named."""
    acted = Outcome.of(incidents, done, expected).acted
    if not acted:
        return None
    number = acted[0]["number"]
    if expected.part:
        named = f"{done.node}: its {expected.part}"
        lines = [line for line in story if named in line["verdict"]]
    else:
        lines = [line for line in story if line["incident"] == number and not line["seen"]]
    return _since(done, lines[0]) if lines else None


def answering(done: Done, incidents: Sequence[Incident], story: Sequence[Line]) -> list[Incident]:
    """Without those that were over before the fault, as on a busy machine, and evicted nobody."""
    later = {line["incident"] for line in story if _since(done, line) >= 0}
    return [each for each in incidents if each["number"] in later or each["evicted"]]


def down_s(done: Done, outcome: Outcome, story: Sequence[Line]) -> float | None:
    """Until the last thing told of the last incident: the step with which it was over."""
    if not outcome.recovered:
        return None
    number = outcome.acted[-1]["number"]
    lines = [line for line in story if line["incident"] == number]
    return _since(done, lines[-1]) if lines else None


def _since(done: Done, line: Line) -> float:
    return datetime.fromisoformat(line["at"]).timestamp() - done.at_s
