"""What is noted of a job's faults, and what is taken back of it once the job has got on.

Called by the ladder, and when a job gets further than ever. Pure.
"""

from msgspec.structs import replace

from holdfast.driver.core.evidence import age
from holdfast.driver.core.evidence.case import Case
from holdfast.driver.core.evidence.table import Table
from holdfast.driver.core.recovery.case_of import reached
from holdfast.driver.core.state.fact import About, Bearing, Fact, OfVersion
from holdfast.driver.core.state.model import Fault, Job
from holdfast.driver.core.turn import Turn


def note(turn: Turn, job: Job, fault: Fault, case: Case, table: Table) -> None:
    """The fault, with what was held to be behind it."""
    about = About(
        job=job.name,
        version=case.version,
        attempt=job.attempt,
        node=case.node,
        place=case.place,
        rank=fault.rank,
        step=reached(fault),
        site=case.site,
    )
    fact = Fact(
        subject=OfVersion(job=job.name, number=case.version),
        what=fault.kind,
        fault=case.fault,
        bearing=Bearing.CONTEXT,
        at_s=turn.now,
        about=about,
        held_for=table.chosen,
        entry=turn.sequence,
    )
    turn.job(job.name, facts=age.kept((*turn.jobs[job.name].facts, fact), turn.now))


def got_on(turn: Turn, name: str, step: int | None) -> None:
    """The job got further than ever: sites that lie behind it are passed."""
    job = turn.jobs[name]
    facts = tuple(_passed(fact) if _behind(fact, step) else fact for fact in job.facts)
    if facts != job.facts:
        turn.job(name, facts=facts)


def _behind(fact: Fact, step: int | None) -> bool:
    site = fact.about.site
    if site is None:
        return False
    return step is None or site.step is None or site.step < step


def _passed(fact: Fact) -> Fact:
    return replace(fact, about=replace(fact.about, site=None))
