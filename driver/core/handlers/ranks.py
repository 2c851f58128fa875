"""What executors and detectors say of a job's ranks: quiet, store, running, exited, progress.

Called by `decide`. Pure. Whatever belongs to an epoch that is over is ignored here, once for all.
"""

import msgspec
from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.attempt import known_points, quiet, restore_step, saving, tally
from holdfast.driver.core.faults import incidents, root_cause
from holdfast.driver.core.faults.fault import by_executor, infrastructure
from holdfast.driver.core.recovery import facts, loss_replay, next_step
from holdfast.driver.core.state.model import Job, Timer
from holdfast.driver.core.state.node import Exited, Quiet
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Kind, Weight
from holdfast.protocol.messages import RankStatus, Stored
from holdfast.telemetry.analysis.ends import failed


def current(turn: Turn, event: e.OfEpoch) -> Job | None:
    """The job, if the event is of its current epoch."""
    job = turn.jobs.get(event.job)
    if job is None or job.finished or job.parked or event.epoch != job.epoch:
        return None
    return job


def _for_its_job(turn: Turn, event: e.NodeQuiet) -> e.NodeQuiet:
    """A standby that was told a later epoch of another job goes on under that one: what it tells
    under it is of the epoch of its job.
    """
    job = turn.jobs.get(event.job)
    if job is None or event.node not in job.standbys:
        return event
    told = turn.nodes[event.node].told.epoch
    return replace(event, epoch=job.epoch) if event.epoch == told else event


def on_quiet(turn: Turn, event: e.NodeQuiet) -> None:
    event = _for_its_job(turn, event)
    job = current(turn, event)
    if job is None or not turn.has(job, event.node):
        return
    if job.seated and event.node not in job.standbys:
        return
    told = msgspec.convert(event, Quiet, from_attributes=True)  # what both have has the same name
    before = turn.nodes[event.node].quiet_in(job.epoch)
    if before == told:
        return
    quiet.note(turn, job, event.node, told)
    turn.job(job.name, points=known_points.acknowledge(job, event.stored))
    if before is None:
        turn.say(f"no earlier rank is left on {event.node}")


def on_saving(turn: Turn, event: e.SaveProgressed) -> None:
    job = current(turn, event)
    if job is not None:
        saving.gets_on(turn, job, event.taken_bytes)


def on_stored(turn: Turn, event: e.CheckpointStored) -> None:
    """Of an older epoch too: what was acknowledged is remembered, however late that is told."""
    job = turn.jobs.get(event.job)
    if job is None or job.finished:
        return
    stored = Stored(step=event.step, epoch=event.epoch)
    known = known_points.acknowledge(job, [stored], written_s=turn.now)
    if known != job.points:
        turn.job(job.name, points=known)
        turn.say(f"the checkpoint of step {event.step} is in the store")


def on_rendezvous_ready(turn: Turn, event: e.RendezvousReady) -> None:
    """Ranks that were told of another one wait there: it died as they were on their way."""
    job = current(turn, event)
    if job is None or event.node != job.host or job.rendezvous == event.rendezvous:
        return
    if job.seated:
        _store_lost(turn, job, "another one has taken the place of the rendezvous that ranks know")
    else:
        turn.job(job.name, rendezvous=event.rendezvous)
        turn.say(f"the rendezvous of attempt {job.attempt + 1} listens on {event.node}")


def on_rendezvous_lost(turn: Turn, event: e.RendezvousLost) -> None:
    job = current(turn, event)
    if job is not None and job.seated and event.node == job.rendezvous_host:
        text = "its process is gone, and no step has been completed since it listened"
        _store_lost(turn, job, text)


def _store_lost(turn: Turn, job: Job, text: str) -> None:
    """Ranks that have not all met wait for it for ever, and those that have need it no more.

    A step says that they have met; ranks that ended are a story of their own.
    """
    if job.progressed or job.tally.ended:
        return
    node = job.rendezvous_host
    summary = f"the rendezvous of attempt {job.attempt} on {node} died before its ranks had met"
    told = by_executor(node, text)
    fault = infrastructure(
        Kind.START_FAILED, Weight.RESTART, summary, node, told, sign="rendezvous-lost"
    )
    next_step.recover(turn, job.name, fault)


def on_running(turn: Turn, event: e.RanksRunning) -> None:
    job = current(turn, event)
    if job is None or not _has_ranks(turn, job, event.node):
        return
    if tally.runs_on(turn.nodes[event.node], job):
        return
    tally.runs(turn, job, event.node)
    turn.say(f"the ranks on {event.node} run")


def on_exited(turn: Turn, event: e.RanksExited) -> None:
    """Note the exits, in order; a failed one is judged when the window closes."""
    job = current(turn, event)
    if job is None or not _has_ranks(turn, job, event.node):
        return
    known = {exited.status.rank for exited in tally.ended_on(turn.nodes[event.node], job)}
    own = sorted(event.exits, key=lambda status: status.order)
    new = [status for status in own if status.rank not in known and status.state == "exited"]
    if not new:
        return
    best = _highest(job.best_step, event.step)
    tally.ended(turn, job, event.node, tuple(_exit(turn, event, status) for status in new))
    turn.job(job.name, best_step=best)
    ranks = ", ".join(str(status.rank) for status in new)
    turn.say(f"rank {ranks} on {event.node} ended")
    if any(failed(status) for status in new):
        turn.job(job.name, failed_s=turn.now if job.failed_s is None else job.failed_s)
        _gather(turn, job.name)


def _has_ranks(turn: Turn, job: Job, node: str) -> bool:
    """Whether ranks of this attempt are on the node."""
    return job.seated and turn.has(job, node) and node not in job.standbys


def _exit(turn: Turn, event: e.RanksExited, status: RankStatus) -> Exited:
    saved = max(status.saved or 0, event.saved)
    return Exited(node=event.node, status=status, step=event.step, saved=saved, at=turn.sequence)


def _gather(turn: Turn, name: str) -> None:
    """Wait a moment for others; longer while something else may explain all that is known."""
    job, policy = turn.jobs[name], turn.policy
    due = job.timers.get(Timer.GATHER)
    if due is not None and turn.now + min(policy.echo_s, policy.gather_s) >= due:
        return  # however it is, it is looked at soon enough
    asked = root_cause.only_echoes(job) or (root_cause.in_question(job) and job.unlike is None)
    after_s = policy.echo_s if asked else policy.gather_s
    if due is None or turn.now + after_s < due:
        turn.set_timer(name, Timer.GATHER, after_s)


def on_repeated(turn: Turn, event: e.StepsRepeated) -> None:
    """The script began again by itself: until it is as far as it was, what it does was done.

    Ranks that were given a checkpoint began there, whatever they count themselves.
    """
    job = current(turn, event)
    if job is None or not job.seated or job.progressed or job.restore is not None:
        return
    incidents.note_starts(turn, job, event.starts_s)
    incidents.note_repeats(turn, job, event.since, event.before)
    turn.say(f"{job.name} began again {_where(event)}", job.name)


def _where(event: e.StepsRepeated) -> str:
    """Whether a script goes on from what it has saved itself nobody sees."""
    again = restore_step.again(event.before, event.since)
    if not event.since:
        return f"from the beginning{again}"
    again = again or ": no step is done again"
    return (
        f"where its script begins, which had saved step {event.since}{again} if it goes on from "
        f"there, else {event.before}"
    )


def on_progress(turn: Turn, event: e.ProgressSeen) -> None:
    """A step that no epoch had reached: whatever was wrong is over."""
    job = current(turn, event)
    first = event.step is not None and job is not None and job.best_step is None
    if job is None or not job.seated or (job.progressed and not first):
        return
    turn.job(job.name, progressed=True, best_step=_highest(job.best_step, event.step))
    if job.restore is not None:
        turn.job(job.name, points=known_points.verify(job, job.restore))
    if event.step is not None:
        loss_replay.passed(turn, turn.jobs[job.name], event.step)
    least = 0 if event.stepless else 1  # of steps that nobody counts there was one
    facts.got_on(turn, job.name, least if event.step is None else event.step)
    turn.say(f"{job.name} {_went_on(turn, job, event)}", job.name)
    incidents.note_starts(turn, job, event.starts_s)
    incidents.note_resumed(turn, job, event.before)
    incidents.back(
        turn, job.name, "training again" if event.step is None else f"back at step {event.step}"
    )


def on_faster(turn: Turn, event: e.FasterSeen) -> None:
    """For people alone."""
    job = current(turn, event)
    if job is None or (job.best_step_s is not None and event.best_step_s >= job.best_step_s):
        return
    turn.job(job.name, best_step_s=event.best_step_s)
    turn.say(f"{job.name} is faster than ever: {event.best_step_s:.3g} s a step")


def _went_on(turn: Turn, job: Job, event: e.ProgressSeen) -> str:
    if event.stepless:
        return "trains: its collectives go on, though no step of an optimizer is seen"
    if event.step is None and job.attempt > 1 and job.restore is None:
        if incidents.steps_known(turn, job):
            return "trains, and is further than it was before"
        return "trains again: its script started again, and repeats what it had not saved"
    return "trains" if event.step is None else f"completed step {event.step}, the furthest so far"


def _highest(*steps: int | None) -> int | None:
    return max((step for step in steps if step is not None), default=None)
