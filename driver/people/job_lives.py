"""Which life of a name something is of: a job that was deleted leaves its name to the next one.

Called by all who tell people of a job. Pure. The journal keeps every life; a job's own begins with
the entry that submitted it.
"""

from holdfast.driver.core.faults.incidents import hit
from holdfast.driver.core.state.model import Incident, Job, State


def before(job: Job) -> int:
    """The sequence after which the journal's entries of this name are the job's own."""
    return job.number - 1


def incidents_of(state: State, name: str) -> list[Incident]:
    """What hit the job of this name, oldest first; where there is none now, all that had it."""
    job = state.jobs.get(name)
    found = sorted(state.incidents.values(), key=lambda incident: incident.id)
    return [each for each in found if (hit(each, job) if job else name in each.jobs)]
