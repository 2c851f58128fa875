"""Suspects leave their job: a warm standby takes the place, and training goes on meanwhile.

Called by the recovery; `off_the_job` holds the tests. Pure. It is done where enough healthy nodes
are there to be tested beside: the job's own standbys, and free ones; and where the last step can
be saved, for what only the suspect's memory has is lost with it. Else, and while the brake is on,
the job's ranks stand still and its own nodes help: see `diagnosis`. A node that stands out, and
that nobody said has to be tested, may be left without tests: see `takes_over`.
"""

from collections.abc import Iterable

from holdfast.driver.core.attempt import saving
from holdfast.driver.core.job import eviction, move_on_suspicion
from holdfast.driver.core.job.allocation import leave
from holdfast.driver.core.job.candidates import unwanted
from holdfast.driver.core.state.fit import Use, fits
from holdfast.driver.core.state.model import Job
from holdfast.driver.core.state.node import Suspect
from holdfast.driver.core.testing import rounds
from holdfast.driver.core.turn import Turn


def may_begin(turn: Turn, job: Job, node: str | None) -> bool:
    """Whether the node's place can go to a warm standby now, and the node be tested off the job."""
    warm = takes_over(turn, job, node)
    if node is None or not (warm and may_be_tested(turn, job, node)):
        return False
    helpers = rounds.others(rounds.idle(turn, job), but=(node, *warm))
    return len(helpers) == rounds.HELPERS


def may_be_tested(turn: Turn, job: Job, node: str) -> bool:
    """Whether the node may be tested once the job has left it, if only alone."""
    held_back = turn.brake.on or turn.policy.dry_run
    return not held_back and fits(Use.ASIDE, job, turn.nodes[node], turn.now)


def takes_over(turn: Turn, job: Job, node: str | None) -> list[str]:
    """The warm standbys that can take the node's place now, and of what else the job has to leave;
    none where they do not suffice."""
    if node not in job.places or node in job.leaving or not saving.can_save(job):
        return []
    known = unwanted(turn, job, without=node)
    own = [turn.nodes[standby] for standby in job.standbys if standby not in known]
    warm = [each.name for each in own if fits(Use.AT_ONCE, job, each, turn.now)]
    needed = len(job.leaving) + 1
    return warm[:needed] if len(warm) >= needed else []


def begin(
    turn: Turn, name: str, node: str, why: str, *, beside: Iterable[str] | None = None
) -> None:
    """The job leaves the node, its last step saved first; it is tested once it is given back.
    `beside`: nothing but its tests with these speaks against it.
    """
    job = turn.jobs[name]
    met = None if beside is None else tuple(sorted(beside))
    setup = eviction.setup_of(job)
    turn.set_trust(node, Suspect(why=why, setup=setup, exam_s=turn.now, beside=met))
    if node in job.places:
        move_on_suspicion.leave_place(turn, name, node)
    else:
        leave(turn, node)
    turn.say(f"{node} is tested before anybody uses it again", name)


def doubt(turn: Turn, name: str, node: str, part: str, beside: Iterable[str] = ()) -> None:
    """A node failed its tests, and nobody new can be tested beside it: it is not evicted."""
    why = f"its {part} failed its tests, and nobody else is there to be tested beside it"
    turn.say(f"{node} is a suspect: {why}", name)
    begin(turn, name, node, why, beside=beside)
