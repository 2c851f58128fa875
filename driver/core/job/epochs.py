"""From one epoch to the next: end what runs, wait until it is quiet, agree on a step, seat ranks.

Called by the other machines of the core (`open_epoch`) and by `advance` (`seat`). Pure. Everything
a node is told follows from the fields that change here; see `orders`. An epoch that is given twice
would put two lines of training under one name in the store: those that a journal lacks, which was
put back from a backup, are left out; `journal_restored` tells of them.
"""

import math

from msgspec.structs import replace

from holdfast.driver.core import exams
from holdfast.driver.core.attempt import known_points, quiet, restore_step
from holdfast.driver.core.faults import incidents
from holdfast.driver.core.state.layout import Layout
from holdfast.driver.core.state.model import Attempt, Job, Tally, Timer
from holdfast.driver.core.state.node import Awaited
from holdfast.driver.core.state.restore_point import Choice
from holdfast.driver.core.turn import Turn
from holdfast.protocol.messages import GRACEFUL

LOOK_AGAIN_S = 5.0
"""Until a store that could not be read is looked at again, at first; then as long as it was waited
for in vain, up to `Policy.store_s`. (A file system that is mounted anew takes some seconds.)"""

PER_EPOCH = (
    Timer.GATHER,
    Timer.DOUBT,
    Timer.STACKS,
    Timer.QUIET,
    Timer.STORE,
    Timer.SAVE,
    Timer.SAVE_FAILS,
    Timer.START,
    Timer.SETTLE,
)

LOST = 1_000
"""So many epochs are taken for lost, and not given again: others than those who have come back by
now may have followed later ones."""

# ---------------------------------------------------------------- to the next one


def open_epoch(turn: Turn, name: str, *, stop: str = "kill") -> None:
    """Fence off what ran: a new epoch in which no rank may run yet."""
    epoch = _give(turn)
    job = turn.jobs[name]
    if job.exam is not None:
        exams.drop(turn, job.exam)
    ending = quiet.end_all(turn, job) if job.seated else job.tally.ending
    turn.job(
        name,
        epoch=epoch,
        stop=stop,
        rendezvous_host=job.host,
        save=None,
        saving=None,
        rendezvous=None,
        seats=(),
        restore=None,
        tally=Tally(ending=ending),
        failed_s=None,
        unlike=None,
        held=None,
        progressed=False,
        exam=None,
    )
    turn.drop_timers(name, *PER_EPOCH)
    grace_s = job.plan.grace_s if stop in GRACEFUL else 0.0
    turn.set_timer(name, Timer.QUIET, turn.policy.quiet_s + grace_s)


def all_set(turn: Turn, job: Job) -> bool:
    """True when every place has a node that is the job's own and has nothing older left."""
    if job.vacant or job.tally.quiet < len(job.places):
        return False  # asked at each node's word: no look at all of them before the last
    nodes = (turn.nodes[name] for name in job.places)
    return all(node.allocated and quiet.is_quiet(node, job) for node in nodes)


def seat(turn: Turn, name: str) -> bool:
    """Agree on a step and let ranks run, if the store listens. False: something is missing."""
    job = turn.jobs[name]
    if job.rendezvous is None:
        _await_rendezvous(turn, job)
        return False
    told = quiet.quiet_of(turn.nodes, job)
    choice = restore_step.chosen(job, told)
    point = choice.point
    if why := restore_step.hindrance(job, told, point):
        _hold(turn, job, why)
        return False
    step = point.step if point else 0
    job = turn.put_job(replace(job, layout=_numbered(job)))
    version, layout = job.version.number, job.layout.number
    begun = Attempt(
        epoch=job.epoch,
        number=job.attempt + 1,
        version=version,
        layout=layout,
        incident=job.incident,
    )
    turn.drop_timers(name, Timer.QUIET, Timer.STORE)
    turn.job(
        name,
        seats=job.layout.seats({node: turn.nodes[node].address for node in job.places}),
        attempt=job.attempt + 1,
        restore=point,
        stop="kill",
        history=(*known_points.close_epochs(job.history, step), begun),
        points=known_points.after_start(job, step),
        spoiled=None,
        granted=None,
        reached=None,
        unsure_s=None,
        waiting="",
    )
    turn.set_timer(name, Timer.START, job.plan.start_s)
    incidents.note(turn, job, seated_s=turn.now)
    reached = restore_step.reached(job, told)
    before = max(job.best_step or 0, reached or 0)
    turn.say(f"{name} starts attempt {job.attempt + 1} {_origin(job, choice, before)}", name)
    if point is not None or job.best_step is not None:
        incidents.note_restored(turn, job, step, reached)
    return True


def _numbered(job: Job) -> Layout:
    """Where its ranks lie, which has a number once they run there."""
    if job.layout.number:
        return job.layout
    last = max((attempt.layout for attempt in job.history), default=0)
    return replace(job.layout, number=last + 1)


def _await_rendezvous(turn: Turn, job: Job) -> None:
    """It has its time, which begins once there is nothing more that it has to wait for."""
    host = turn.nodes[job.host].quiet_in(job.epoch)
    if host is not None and (what := host.preparing):
        turn.drop_timers(job.name, Timer.STORE)
        turn.wait_for(job.name, f"{job.host} is not ready yet: {what}")
    else:
        _arm_store(turn, job)


def _hold(turn: Turn, job: Job, why: str) -> None:
    """No ranks yet: what the store holds is looked at again, or a person says where to start. A
    store that was away for a moment costs a moment, and one that stays away few looks."""
    if job.unsure_s is None:
        job = turn.job(job.name, unsure_s=turn.now)
    again_s = max(LOOK_AGAIN_S, turn.now - (job.unsure_s or 0.0))
    if turn.now + again_s < job.timers.get(Timer.STORE, math.inf):
        turn.set_timer(job.name, Timer.STORE, min(again_s, turn.policy.store_s))
    turn.wait_for(job.name, why)


def _origin(job: Job, choice: Choice, before: int) -> str:
    """Where its ranks start, and what they do again of what was completed `before`. With no step of
    ours a script may still load one of its own: only what it does next tells.
    """
    why = f", {choice.why}" if choice.why else ""
    if point := choice.point:
        return f"from {point}{why}{restore_step.again(before, point.step)}"
    if not job.attempt:
        return "from the beginning"
    return f"where its script begins{why}{restore_step.again(before, 0, most='up to ')}"


def _arm_store(turn: Turn, job: Job) -> None:
    if Timer.STORE not in job.timers:
        turn.set_timer(job.name, Timer.STORE, turn.policy.store_s)


# ---------------------------------------------------------------- which one that is


def _give(turn: Turn) -> int:
    """The next epoch. The first one of a term leaves out those that may be lost, while an executor
    of before is still away: only once all are back is it known that nobody has followed one.
    """
    if turn.fenced < turn.term and any(isinstance(n.link, Awaited) for n in turn.nodes.values()):
        jobs = [job.name for job in turn.jobs.values() if job.history]
        leave_out(turn, turn.epoch + LOST, jobs)
    turn.fenced = turn.term
    turn.epoch += 1
    return turn.epoch


def leave_out(turn: Turn, last: int, jobs: list[str]) -> None:
    """Give none up to `last`. What these jobs have of them is theirs."""
    first, turn.epoch, turn.fenced = turn.epoch + 1, last, turn.term
    for name in turn.each_job(jobs, parked=True):
        note_lost(turn, turn.jobs[name], first, last)


def note_lost(turn: Turn, job: Job, first: int, last: int) -> None:
    """What any of these epochs saved may be of the job's line."""
    if job.finished or any(attempt.has(last) for attempt in job.history):
        return
    before, newest = job.history[:-1], job.history[-1:]
    if newest and _goes_on(newest[0], first):
        turn.job(job.name, history=(*before, replace(newest[0], epoch=last)))
    else:
        lost = Attempt(epoch=last, first=first, version=job.version.number)
        turn.job(job.name, history=(*job.history, lost))


def _goes_on(newest: Attempt, first: int) -> bool:
    """Whether it is of lost epochs, too, and nothing ran since: else each term would add one. What
    was given in between was given to other jobs.
    """
    return newest.first is not None and newest.end is None and newest.epoch < first
