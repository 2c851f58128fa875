"""Which life of a name something is of: a job that was deleted leaves its name to the next one.

Called by all who tell people of a job. Pure. The journal keeps every life; a job's own begins with
the entry that submitted it.
"""

from holdfast.driver.core.faults.incidents import hit
from holdfast.driver.core.state.model import Incident, Job, State

SHOWN_S, MOST_SHOWN_S = 5.0, 60.0
"""Of what ranks did before an incident, and with how long it lasted until it was found: of a
standstill of half an hour its last minute tells who waits for whom."""


def before(job: Job) -> int:
    """The sequence after which the journal's entries of this name are the job's own."""
    return job.number - 1


def incidents_of(state: State, name: str) -> list[Incident]:
    """What hit the job of this name, oldest first; where there is none now, all that had it."""
    job = state.jobs.get(name)
    found = sorted(state.incidents.values(), key=lambda incident: incident.id)
    return [each for each in found if (hit(each, job) if job else name in each.jobs)]


def until_found(incident: Incident, job: Job) -> tuple[float, float]:
    """From shortly before it began until it was found, in seconds since the job's submission: then
    all of its ranks are where it left them."""
    found_s = max(0.0, incident.found_s - job.submitted_s)
    began_s = found_s - incident.stalled_s
    return max(0.0, began_s - SHOWN_S, found_s - MOST_SHOWN_S), found_s
