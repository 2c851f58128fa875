"""What an injection is worth: made of facts that others looked up. Pure.

Called by `chaos.play`. Scored as docs/faults.md says: right class, right node, nobody innocent
evicted, how long, how much lost, and the losses bit for bit.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.lab.chaos import blamed
from holdfast.lab.chaos.injectors import Done
from holdfast.lab.chaos.scenario import Expected
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
    node: str | None = None
    """The victim, as are rank and role; None: it has none."""
    rank: int | None = None
    role: str = ""
    """`rank 0`, `the store's node` (where ranks meet), `another rank`, `another node`."""
    at_step: int | None = None
    """How far the job had come."""
    classed: str = ""
    """As whose fault: `infrastructure`, `user`, `unknown`; `report`: only told; "": nothing was."""
    named: str = ""
    """`victim`, `another`, `nobody`; "" where nothing was told."""


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
    meets: str = ""  # the node on which ranks met first
    loss_equal_bitwise: bool | None


def score(facts: Facts) -> Score:
    """Pass or not, and by how much."""
    expected = facts.expected
    outcome = Outcome.of(facts.incidents, facts.done, expected)
    incidents, acted = facts.incidents, outcome.acted
    right = blamed.is_right(expected, facts.done, incidents, acted)
    judged = blamed.judged(expected, facts.done, incidents, acted)
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
        blame="; ".join(map(_blame, outcome.acted or filter(None, [judged]))),
        blame_right=right,
        innocent_evicted=len(innocent),
        down_s=rounded(down_s(facts.done, outcome, facts.story)),
        steps_lost=facts.steps_lost,
        steps_lost_told=told,
        loss_equal_bitwise=facts.loss_equal_bitwise,
        not_looked_at=tuple(facts.not_looked_at),
        node=facts.done.node,
        rank=facts.done.rank,
        role=_role(facts),
        at_step=facts.done.step,
        classed=blamed.as_whose(judged),
        named=blamed.who(facts.done, judged),
    )


def _role(facts: Facts) -> str:
    """What the victim was to the job."""
    if facts.done.rank is not None:
        return "another rank" if facts.done.rank else "rank 0"
    if facts.done.node is None:
        return ""
    return "the store's node" if facts.done.node == facts.meets else "another node"


def _blame(incident: Incident) -> str:
    rank = "" if incident["rank"] is None else f" rank {incident['rank']}"
    return f"{incident['kind']} {incident['node'] or 'nobody'}{rank} ({incident['blame']})"


def detected_s(
    expected: Expected, done: Done, incidents: Sequence[Incident], story: Sequence[Line]
) -> float | None:
    """Until the first decision on the first that acted, or until the bad part was named."""
    acted = Outcome.of(incidents, done, expected).acted
    first = acted[0] if acted else blamed.judged(expected, done, incidents, acted)
    if first is None:
        return None
    number = first["number"]
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
