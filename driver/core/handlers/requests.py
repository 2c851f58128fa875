"""What people asked for. `people.admission` has refused what cannot be; here it is done.

Called by `decide`. Pure.
"""

from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.attempt import known_points
from holdfast.driver.core.job import eviction, finish, maintenance
from holdfast.driver.core.job.epochs import open_epoch
from holdfast.driver.core.recovery import next_step
from holdfast.driver.core.state import layout
from holdfast.driver.core.state.model import Attempt, Fault, Job, Phase, Timer, Wanted
from holdfast.driver.core.state.node import Against, Source, Trusted
from holdfast.driver.core.state.versions import Version, with_newer
from holdfast.driver.core.testing import off_the_job
from holdfast.driver.core.turn import Turn
from holdfast.protocol import collectives
from holdfast.protocol.commands import ELSEWHERE, starts_python
from holdfast.protocol.faults import Evidence, Kind, Weight
from holdfast.protocol.messages import EARLIER


def on_submitted(turn: Turn, event: e.JobSubmitted) -> None:
    if event.job in turn.jobs:
        return
    plan = event.plan
    job = Job(
        name=event.job,
        versions=(Version(number=1, plan=plan, at_s=turn.now, by=event.by),),
        layout=layout.of_plan(plan),
        phase=Phase.PENDING,
        number=turn.sequence,
        submitted_s=turn.now,
        since_s=turn.now,
        wanted=Wanted.SUSPEND if plan.suspend else Wanted.RUN,
        history=(Attempt(epoch=EARLIER),) if plan.task.begin_from else (),
    )
    turn.put_job(job)
    turn.say(f"{event.job} is submitted by {event.who}{_store(plan)}{_meets(plan)}", event.job)
    if plan.deadline_s is not None:
        turn.set_timer(event.job, Timer.DEADLINE, plan.deadline_s)


def on_updated(turn: Turn, event: e.UpdateRequested) -> None:
    """Where ranks are to run something else it is a new version, which the next attempt runs: what
    is under way ends as for a move, with its grace, and is blamed for nothing."""
    job = turn.jobs.get(event.job)
    if job is None or job.finished or job.ends is not None or job.parked:
        return
    what = ", ".join(event.fields)
    if _same_to_ranks(job.plan, event.plan):
        same = replace(job.version, plan=event.plan, again=None)
        turn.put_job(replace(job, versions=(*job.versions[:-1], same)))
        turn.say(f"{event.who} changes {what} of {job.name}", job.name)
        return
    number = job.version.number + 1
    newer = Version(number=number, plan=event.plan, at_s=turn.now, by=event.by)
    job = turn.put_job(replace(job, versions=with_newer(job.versions, newer)))
    turn.say(f"{event.who} gives {job.name} version {number}, which changes {what}", job.name)
    if job.seated and job.goes_on:
        turn.move(job.name, Phase.SUSPENDING)
        open_epoch(turn, job.name, stop="grace")


def _same_to_ranks(before: e.Plan, after: e.Plan) -> bool:
    """What executors act on only when ranks end or start may be other while they run."""
    old = before.task
    return replace(after.task, max_restarts=old.max_restarts, grace_s=old.grace_s) == old


def on_suspend(turn: Turn, event: e.SuspendRequested) -> None:
    job = turn.jobs.get(event.job)
    if job is None or job.finished or job.parked or not job.goes_on:
        return
    turn.job(job.name, wanted=Wanted.SUSPEND)
    turn.say(f"{event.who} wants {job.name} suspended", job.name)
    if job.seated and known_points.newest_stored(job) is None:
        how = "with no checkpoint in its store so far"
        again = "what is then neither in memory nor saved by its script is done again"
        turn.say(f"{job.name} is being suspended {how}: {again}", job.name)
    _wind_down(turn, job)


def on_resume(turn: Turn, event: e.ResumeRequested) -> None:
    _grant(turn, event)
    job = turn.jobs.get(event.job)
    if job is None or job.wanted is not Wanted.SUSPEND or job.ends is not None:
        return
    turn.job(job.name, wanted=Wanted.RUN)
    turn.say(f"{event.who} wants {job.name} to go on", job.name)
    if job.attempt and job.granted is None:
        turn.say(_goes_on(job), job.name)
    if job.phase is Phase.SUSPENDED:
        turn.move(job.name, Phase.PENDING)


def _goes_on(job: Job) -> str:
    """Where a job begins that was suspended, as far as is known before its nodes have looked."""
    if stored := known_points.newest_stored(job):
        return f"{job.name} goes on from step {stored.step}, which is in its store, or a later one"
    where = "unless one is found its script begins where it has saved itself, or anew"
    return f"no checkpoint of {job.name} is known: {where}"


def _grant(turn: Turn, event: e.ResumeRequested) -> None:
    """Note where a person wants ranks to start, whatever the store has, or had."""
    job = turn.jobs.get(event.job)
    if job is None or event.from_step is None or job.seated or job.finished or job.ends:
        return
    where = f"from step {event.from_step}" if event.from_step else "from the beginning"
    turn.job(job.name, granted=event.from_step)
    turn.say(f"{event.who} wants {job.name} to go on {where}", job.name)


def on_stop(turn: Turn, event: e.StopRequested) -> None:
    stop = "interrupt" if event.interrupt else "grace"
    _stop(turn, event.job, Wanted.STOP, f"{event.who} wants {event.job} stopped", stop)


def on_left(turn: Turn, event: e.RanksLeft) -> None:
    """For people alone. Where ranks ended by themselves, they have said how far they were."""
    job = turn.jobs.get(event.job)
    if job is None:
        return
    given_up = Phase.FAILED in (job.phase, job.ends) and not job.exits
    if given_up or job.wanted is not Wanted.RUN:
        turn.job(event.job, reached=event.reached)


def on_delete(turn: Turn, event: e.DeleteRequested) -> None:
    job = turn.jobs.get(event.job)
    if job is not None and job.finished:
        finish.drop(turn, event.job)
    else:
        _stop(turn, event.job, Wanted.DELETE, f"{event.who} wants {event.job} deleted")


def on_evict(turn: Turn, event: e.NodeEvictRequested) -> None:
    node = turn.nodes.get(event.node)
    if node is None or (node.quarantine and node.quarantine.by_person):
        return
    wanted = f"{event.who} wants {event.node} out: {event.reason}"
    if node.quarantine:
        off_the_job.end(turn, event.node)
        turn.set_trust(event.node, replace(node.quarantine, by_person=True, exam_s=None))
        turn.say(f"{wanted}; only a person restores it now")
        return
    fault = Fault(
        kind=Kind.REQUESTED,
        weight=Weight.CONCLUSIVE,
        node=event.node,
        summary=wanted,
        evidence=(Evidence(source=event.who, text=event.reason),),
        asked=True,
    )
    job = turn.jobs.get(node.job or "")
    if job is not None and not (job.parked or eviction.stays(job, event.node)):
        next_step.recover(turn, job.name, fault)
        return
    eviction.evict_at_rest(turn, fault, _at_rest(job), asked=True)


def _at_rest(job: Job | None) -> str:
    """Why nothing had to recover."""
    if job is None:
        return "no job was using it"
    return f"{job.name} {'is parked' if job.parked else 'was ending already'}"


def on_restore(turn: Turn, event: e.NodeRestoreRequested) -> None:
    node = turn.nodes.get(event.node)
    doubted = node is not None and not isinstance(node.trust, Trusted)
    if node is None or not (doubted or Source.PERSON in node.against):
        return
    maintenance.withdraw(turn, event.node, Source.PERSON)
    turn.say(f"{event.who} wants {event.node} used again: {event.reason}")
    if doubted:
        off_the_job.end(turn, event.node)
        eviction.trust(turn, event.node, asked=True)


def on_maintain(turn: Turn, event: e.NodeMaintainRequested) -> None:
    if event.node not in turn.nodes:
        return
    by_s = None if event.within_s is None else turn.now + event.within_s
    why = f"{event.who} wants to work on it: {event.reason}"
    maintenance.give(turn, event.node, Source.PERSON, Against(why=why, by_s=by_s))
    off_the_job.make_way(turn, event.node)


def _stop(turn: Turn, name: str, wanted: Wanted, sentence: str, stop: str = "grace") -> None:
    job = turn.jobs.get(name)
    if job is None or job.finished or job.wanted is wanted:
        return
    turn.job(name, wanted=wanted)
    turn.say(sentence, name)
    if job.parked:
        finish.stop(turn, name)
    elif job.wanted is Wanted.RUN:
        _wind_down(turn, job, stop)


def _wind_down(turn: Turn, job: Job, stop: str = "grace") -> None:
    """End what runs, with grace; where nothing runs, what is under way ends by itself."""
    if job.phase in finish.BEFORE_RANKS or job.phase is Phase.SUSPENDING:
        return
    turn.move(job.name, Phase.SUSPENDING)
    if job.seated:
        open_epoch(turn, job.name, stop=stop)


def _meets(plan: e.Plan) -> str:
    """Where its ranks meet, and what NCCL and gloo are told that others are not."""
    task = plan.task
    own = collectives.unusual(task.default_env)
    told = f"; its ranks meet in {task.rendezvous}" if task.rendezvous else ""
    if told and not starts_python(task.command):
        told += f"; its command is no script of Python, and what it starts {ELSEWHERE}"
    return told + (f"; they have {', '.join(own)}" if own else "")


def _store(plan: e.Plan) -> str:
    """Said of a folder that the user named: other jobs may have left checkpoints beside it."""
    task = plan.task
    if task.begin_from:
        return f"; it goes on from what an earlier job left in {task.begin_from}"
    beside_logs = task.store_url.startswith(f"file://{task.log_root}/")
    if beside_logs or not (task.store_url and task.store_interval_steps):
        return ""
    return f"; it starts anew, with checkpoints of its own alone in {task.store_url}"
