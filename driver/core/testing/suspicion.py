"""Suspects leave their job: a warm standby takes the place, and training goes on meanwhile.

Called by the ladder; `off_the_job` holds the tests. Pure. It is done where enough healthy nodes are
there to be tested beside: the job's own standbys, and free ones; and where the last step can be
saved, for what only the suspect's memory has is lost with it. Else, and while the brake is on, the
job's ranks stand still and its own nodes help: see `diagnosis`.
"""

from holdfast.driver.core.attempt import saving
from holdfast.driver.core.placing import eviction
from holdfast.driver.core.placing.allocation import ready
from holdfast.driver.core.placing.candidates import unwanted
from holdfast.driver.core.state.fit import Use, fits
from holdfast.driver.core.state.model import Fault, Job
from holdfast.driver.core.state.node import Suspect, Trusted
from holdfast.driver.core.testing import beside
from holdfast.driver.core.turn import Turn


def may_begin(turn: Turn, job: Job, node: str | None) -> bool:
    """Whether the node's place can go to a warm standby now, and the node be tested off the job."""
    held_back = turn.brake.on or turn.policy.dry_run or not saving.can_save(job)
    if node is None or held_back or node not in job.places or node in job.leaving:
        return False
    if not turn.nodes[node].connected or not isinstance(turn.nodes[node].trust, Trusted):
        return False
    known = unwanted(turn, job, without=node)
    own = [turn.nodes[standby] for standby in job.standbys if standby not in known]
    warm = [each.name for each in own if ready(each) and fits(Use.PLACE, job, each, turn.now)]
    needed = len(job.leaving) + 1  # what it has to leave besides takes one each
    helpers = beside.some(turn, job, but=(node, *warm[:needed]))
    return len(warm) >= needed and len(helpers) == beside.HELPERS


def begin(turn: Turn, job: Job, node: str, fault: Fault) -> None:
    """The job leaves the node, its last step saved first; it is tested once it is given back."""
    setup = eviction.setup_of(job)
    turn.set_trust(node, Suspect(why=fault.summary, setup=setup, exam_s=turn.now))
    turn.job(job.name, leaving=(*job.leaving, node))
    turn.say(f"{node} is tested before anybody uses it again", job.name)
