"""What an injection is worth: made of facts that others looked up. Pure.

Called by `chaos.play`. Scored as docs/faults.md says: right class, right node, nobody innocent
evicted, how long, how much lost, and the losses bit for bit.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

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
    judged = _judged(facts, outcome.acted)
    right = _blame_right(facts, outcome.acted, judged)
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
        classed=_class(judged),
        named=_named(facts, judged),
    )


def _role(facts: Facts) -> str:
    """What the victim was to the job."""
    if facts.done.rank is not None:
        return "another rank" if facts.done.rank else "rank 0"
    if facts.done.node is None:
        return ""
    return "the store's node" if facts.done.node == facts.meets else "another node"


def _judged(facts: Facts, acted: Sequence[Incident]) -> Incident | None:
    """The incident that has to be the right one: the first; of a bad part the first whose evidence
    has that; where nothing is to be done, the first that had to be told, or else was acted on.
    """
    if facts.expected.reports and not acted:
        told = (each for each in facts.incidents if each["kind"] == facts.expected.reports)
        return next((each for each in told if each["node"] == facts.done.node), None)
    return next((each for each in acted if _names_part(facts, each)), None)


def _blame_right(facts: Facts, acted: Sequence[Incident], judged: Incident | None) -> bool:
    """Whether that incident names what was hurt, and nothing was found where nothing was.

    Where one incident has to cover several nodes, lost at once, any may be the one that it names.
    """
    expected = facts.expected
    if any(each["kind"] in expected.untold for each in facts.incidents):
        return False
    if expected.may_be_quiet and not acted:
        return True
    if not expected.incident:
        return not acted and (judged is not None or not expected.reports)
    together = facts.done.also if expected.incidents == 1 else ()
    return (
        judged is not None
        and bool(acted)
        and judged["blame"] in expected.blame
        and (not expected.kind or judged["kind"] == expected.kind)
        and (not expected.names_node or judged["node"] in (facts.done.node, *together))
        and (not expected.names_hurt or judged["node"] in (*_hurt(facts), None))
        and (not expected.names_rank or judged["rank"] == facts.done.rank)
    )


def _hurt(facts: Facts) -> tuple[str | None, ...]:
    return (facts.done.node, *facts.done.also)


def _class(judged: Incident | None) -> str:
    if judged is None:
        return ""
    return str(judged["blame"]) if judged["rung"] else "report"


def _named(facts: Facts, judged: Incident | None) -> str:
    """The victim is the rank, where one was hurt and a rank is named, and else its node."""
    if judged is None:
        return ""
    if judged["node"] is None and judged["rank"] is None:
        return "nobody"
    other = None not in (facts.done.rank, judged["rank"]) and judged["rank"] != facts.done.rank
    return "another" if other or judged["node"] not in _hurt(facts) else "victim"


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
    told = (each for each in incidents if each["kind"] == expected.reports)
    first = next(iter(acted or told), None)
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
