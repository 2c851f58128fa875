"""What is noted of a job's faults, and what of it is passed once the job has got on.

Called by `recover`, and when a job gets further than ever. Pure.
"""

from collections.abc import Callable, Set

from msgspec.structs import replace

from holdfast.driver.core.evidence import book, same
from holdfast.driver.core.evidence.case import Case
from holdfast.driver.core.state.fact import (
    About,
    Act,
    Bearing,
    Fact,
    Hypothesis,
    OfNode,
    Site,
    Table,
)
from holdfast.driver.core.state.model import Fault, Job
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame

ASKED = book.MOVES | {Act.SWAP}
"""What shows whether a fault goes along to another node."""


def note(turn: Turn, job: Job, fault: Fault, case: Case, table: Table, payer: Blame | None) -> None:
    """The fault, what was held to be behind it, what is done about it and who pays for that; what
    it says of a node is noted with that node too."""
    version, site = job.running.number, case.site
    about = About(
        job=job.name,
        version=version,
        attempt=job.attempt,
        rank=fault.rank,
        node=case.node,
        assumed=case.assumed,
        place=case.place,
        site=site,
    )
    fact = Fact(
        subject=job.subject,
        what=fault.kind,
        fault=case.fault,
        stood=bool(fault.spot),
        bearing=Bearing.CONTEXT,
        about=about,
        held_for=table.chosen,
        done=table.act,
        payer=payer,
        earned=case.earned,
    )
    known, again = turn.jobs[job.name].facts, case.recurred  # which was not passed for good
    facts = tuple(_with_passed(each, None) if each in again else each for each in known)
    turn.job(job.name, facts=facts)
    turn.add_fact(fact)
    if case.node is not None and fault.node is not None and fault.blame is not Blame.USER:
        _note_of_node(turn, case.node, replace(fact, payer=None), table)


def _with_passed(fact: Fact, at_s: float | None) -> Fact:
    site = fact.about.site
    if site is None or site.passed_s == at_s:
        return fact
    return replace(fact, about=replace(fact.about, site=replace(site, passed_s=at_s)))


def _note_of_node(turn: Turn, node: OfNode, fact: Fact, table: Table) -> None:
    """That a fault was there says little; it accuses the node where that is what is acted on."""
    held = table.chosen is Hypothesis.NODE and table.act is not Act.SWAP  # which only asks
    convicts = table.act is Act.REPLACE
    bearing = Bearing.CONVICTS if convicts else Bearing.ACCUSES if held else Bearing.CONTEXT
    turn.add_fact(replace(fact, subject=node, bearing=bearing))


def withdraw(turn: Turn, job: Job, case: Case) -> None:
    """A fault that followed a job to another node was not the first one's: what was put down to
    that is taken back. It was only left."""
    left = {
        fact.about.node.name
        for fact in case.past
        if fact.done in ASKED and fact.about.node is not None and _is_same(fact, case)
    }
    _take_back(turn, left, lambda fact: _put_down(fact, job.name) and _at(case.site, fact))
    number = job.running.number
    _take_back(
        turn,
        _no_longer_out(case),
        lambda fact: (
            _put_down(fact, job.name) and (fact.about.version, fact.fault) == (number, case.fault)
        ),
    )


def _no_longer_out(case: Case) -> set[str]:
    """Nodes that a job of one node had, and that have no more of its faults than the next: they go
    with it, at whatever site."""
    named = case.named if case.nodes == 1 else []
    out = {node for node in named if same.stands_out(named.count(node), len(named), 1)}
    return {node.name for node in named if node != case.node} - {node.name for node in out}


def _take_back(turn: Turn, nodes: Set[str], put_down: Callable[[Fact], bool]) -> None:
    for name in sorted(nodes & turn.nodes.keys()):
        record = turn.nodes[name].record
        facts = tuple(each for each in record.facts if not put_down(each))
        if facts != record.facts:
            turn.set_record(name, replace(record, facts=facts))


def _put_down(fact: Fact, job: str) -> bool:
    """Whether it was put down to its node for a fault of the job, and not proved."""
    guessed = fact.bearing in (Bearing.ACCUSES, Bearing.CONTEXT) and not fact.by
    return guessed and fact.about.job == job


def _is_same(fact: Fact, case: Case) -> bool:
    """Whether it was the same at this place, on another node."""
    other = fact.about.node not in (None, case.node)
    return other and fact.about.place == case.place and _at(case.site, fact)


def _at(site: Site | None, fact: Fact) -> bool:
    return site is not None and site.same(fact.about.site)


def got_on(turn: Turn, name: str, reached: int) -> None:
    """The job got further than ever, to this step: sites that lie behind it are passed. What ranks
    died of until they went back to an older restore point was of the one before, and no node's."""

    def behind(site: Site) -> bool:
        return site.step is None or site.step < reached

    passed = [each for each in turn.jobs[name].facts if _is_open(each, behind)]
    of_points = [each.about.site for each in passed if each.done is Act.STEP_BACK]
    there = {each.about.node.name for each in passed if each.about.node is not None}
    _take_back(
        turn,
        there if of_points else set(),
        lambda fact: _put_down(fact, name) and any(_at(site, fact) for site in of_points),
    )
    _pass(turn, name, behind)


def settled(turn: Turn, name: str) -> None:
    """The job ran for long without a fault: what befell it while nobody saw it get on is past."""
    _pass(turn, name, lambda site: site.step is None and site.fresh)


def all_passed(turn: Turn, name: str) -> None:
    """Its script saved steps that it counts from its start, and goes on from there: none of its
    ends was at the place of another."""
    _pass(turn, name, lambda site: site.relative)


def _pass(turn: Turn, name: str, behind: Callable[[Site], bool]) -> None:
    job = turn.jobs[name]
    facts = tuple(
        _with_passed(fact, turn.now) if _is_open(fact, behind) else fact for fact in job.facts
    )
    if facts != job.facts:
        turn.job(name, facts=facts)


def _is_open(fact: Fact, behind: Callable[[Site], bool]) -> bool:
    """Whether its site was not passed before, and is now."""
    site = fact.about.site
    return site is not None and site.passed_s is None and behind(site)
