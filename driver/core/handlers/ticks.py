"""Deadlines that have passed: each leads to an action or is set again, so none comes for ever.

Called by `decide` for `Ticked`. Pure.
"""

from collections.abc import Callable

from holdfast.driver.core.attempt import restore_step, saving
from holdfast.driver.core.attempt.quiet import is_ending, is_quiet, quiet_of
from holdfast.driver.core.attempt.tally import exits_of, runs_on
from holdfast.driver.core.events import Ticked
from holdfast.driver.core.faults import incidents, root_cause
from holdfast.driver.core.faults.fault import infrastructure
from holdfast.driver.core.handlers import exam_callers, executors, findings, node_loss, parking
from holdfast.driver.core.job import allocation, eviction, finish, maintenance, move_on_suspicion
from holdfast.driver.core.job.allocation import drop_unready, give_back, leave
from holdfast.driver.core.job.epochs import open_epoch
from holdfast.driver.core.recovery import facts, next_step
from holdfast.driver.core.state.model import Failure, Fault, Job, Phase, Timer, Wanted
from holdfast.driver.core.state.node import Node, Source
from holdfast.driver.core.state.orders import calls_for
from holdfast.driver.core.testing import off_the_job
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Kind, Weight


def on_tick(turn: Turn, event: Ticked) -> None:
    """Act on everything that is due of those whose tick it is."""
    for name in turn.each_job(event.jobs, parked=True):
        _of_job(turn, name)
    for number in event.exams:
        exam_callers.on_tick(turn, number)
    if not (event.jobs or event.exams):
        _of_nodes(turn)


def _of_job(turn: Turn, name: str) -> None:
    job = turn.jobs.get(name)
    if job is None or parking.left_alone(job, turn.now):
        return
    if job.parked:
        parking.come_back(turn, job)
        return
    _timers(turn, name)
    if name in turn.jobs:
        allocation.ask_again(turn, name)


def _of_nodes(turn: Turn) -> None:
    due = [node.name for node in turn.nodes.values() if _is_due(node, turn.now)]
    for name in turn.each_node(due):
        node = turn.nodes[name]
        if node.retry_s is not None and node.retry_s <= turn.now:
            turn.set_retry(node.name, None)
            turn.effects += calls_for(node)
        if _has_rested(node, turn.now):
            turn.object_to(name, Source.REST, None)
    node_loss.check_silence(turn)
    off_the_job.on_tick(turn)


def _is_due(node: Node, now: float) -> bool:
    return (node.retry_s is not None and node.retry_s <= now) or _has_rested(node, now)


def _has_rested(node: Node, now: float) -> bool:
    rest = node.against.get(Source.REST)
    return rest is not None and rest.until_s is not None and rest.until_s <= now


def _timers(turn: Turn, name: str) -> None:
    for timer in Timer:
        job = turn.jobs.get(name)
        if job is None:
            return
        due = job.timers.get(timer)
        if due is not None and due <= turn.now:
            turn.drop_timers(name, timer)
            HANDLERS[timer](turn, turn.jobs[name])


def _gathered(turn: Turn, job: Job) -> None:
    missing = node_loss.missing(turn, job)
    if not (missing and root_cause.only_echoes(job)):
        _judged(turn, job)
    elif node_loss.lose_missed(turn, job):
        return
    elif Timer.DOUBT not in job.timers:
        turn.set_timer(job.name, Timer.DOUBT, turn.policy.doubt_s)
        turn.say(f"ranks of {job.name} lost peers: wait for news of {', '.join(missing)}")


def _judged(turn: Turn, job: Job) -> None:
    fault = root_cause.judge(job, exits_of(turn.nodes, job))
    if fault is not None:
        next_step.recover(turn, job.name, fault)
        incidents.note_seen(turn, turn.jobs[job.name], job.failed_s)


def _no_stacks(turn: Turn, job: Job) -> None:
    waited = job.held is not None and job.held.waits_s is not None
    turn.say("it is looked at again" if waited else "no stacks came in time")
    findings.act(turn, job.name)


def _not_quiet(turn: Turn, job: Job) -> None:
    """Nodes that still are not quiet: with ranks that do not die, cut off, or only just come."""
    late = [node for node in job.nodes if not is_quiet(turn.nodes[node], job)]
    stuck = [node for node in late if is_ending(turn.nodes[node])]
    others = [node for node in late if not is_ending(turn.nodes[node])]
    new = [node for node in others if not executors.has_time(turn, turn.nodes[node])]
    _stuck(turn, job.name, stuck)
    if Timer.CONNECT not in job.timers and not turn.jobs[job.name].finished:
        why = "it did not say in time that no earlier rank is left there"
        drop_unready(turn, job.name, new, why)
    job = turn.jobs[job.name]
    if any(not is_quiet(turn.nodes[node], job) for node in job.nodes):
        turn.set_timer(job.name, Timer.QUIET, turn.policy.quiet_s)


def _stuck(turn: Turn, name: str, nodes: list[str]) -> None:
    """Nodes whose old ranks may still run: a few are lost, many are more likely our own fault."""
    few = len(nodes) <= eviction.cap(turn, turn.policy.silence_share)
    lost = {node for node in nodes if few and turn.nodes[node].connected}
    for node in nodes:
        if node in lost and _has_place(turn, name, node):
            next_step.recover(turn, name, _unkillable(node))
    others = [node for node in nodes if node not in lost and _has_place(turn, name, node)]
    if others and not turn.jobs[name].goes_on:
        leave(turn, *others)
    elif others:
        turn.wait_for(name, f"{', '.join(others)} {_may_have_ranks(len(others))}")


def _may_have_ranks(nodes: int) -> str:
    if nodes == 1:
        return "still has ranks, or does not say that it has none"
    return "still have ranks, or do not say that they have none"


def _has_place(turn: Turn, name: str, node: str) -> bool:
    """Whether the job, if it has not ended meanwhile, has it still."""
    return turn.nodes[node].job == name and not turn.jobs[name].finished


def _unkillable(node: str) -> Fault:
    summary = f"ranks on {node} cannot be ended"
    return infrastructure(Kind.NOT_QUIET, Weight.CONCLUSIVE, summary, node, silent=True)


def _no_store(turn: Turn, job: Job) -> None:
    if job.seated or not job.host:
        return
    looking = restore_step.looking(job, quiet_of(turn.nodes, job))
    if job.rendezvous is not None and looking:  # a new look would begin from nothing
        if not move_on_suspicion.look(turn, job):
            turn.set_timer(job.name, Timer.STORE, turn.policy.store_s)
    elif job.rendezvous is not None:  # it listens, but no checkpoint was found that would do
        open_epoch(turn, job.name)
        turn.say(f"{job.name} looks at its checkpoints again", job.name)
    elif turn.nodes[job.host].connected:
        _not_started(turn, job, job.host, f"the store on {job.host} did not listen in time")
    else:
        turn.set_timer(job.name, Timer.STORE, turn.policy.store_s)


def _no_start(turn: Turn, job: Job) -> None:
    nodes = [turn.nodes[name] for name in job.places]
    late = [node.name for node in nodes if node.connected and not runs_on(node, job)]
    if not late:
        turn.set_timer(job.name, Timer.START, job.plan.start_s)
        return
    summary = f"ranks on {', '.join(late)} did not start within {job.plan.start_s:g} s"
    _not_started(turn, job, late[0] if len(late) < len(job.places) else None, summary)


def _not_started(turn: Turn, job: Job, node: str | None, summary: str) -> None:
    fault = Fault(kind=Kind.START_FAILED, weight=Weight.RESTART, node=node, summary=summary)
    next_step.recover(turn, job.name, fault, attempt=True)


def _settled(turn: Turn, job: Job) -> None:
    if job.held is not None:  # it has a fault, which is waited for
        turn.set_timer(job.name, Timer.SETTLE, turn.policy.settle_s)
        return
    facts.settled(turn, job.name)
    if job.incident is not None:
        outcome = f"ran {turn.policy.settle_s:g} s without a fault"
        turn.say(f"{job.name} {outcome}: it has recovered", job.name)
        incidents.settle(turn, job, outcome)


def _held_long(turn: Turn, job: Job) -> None:
    """Let others have the nodes of a job that cannot use them."""
    if job.phase is not Phase.REPLACING or "" not in job.places:
        return
    if not any(_waits_for(job, other) for other in turn.jobs.values()):
        turn.set_timer(job.name, Timer.HOLD, turn.policy.hold_s)
        return
    incidents.back(turn, job.name, "gave its nodes back, for none was to be had")
    give_back(turn, job.name)
    turn.move(job.name, Phase.PENDING)
    turn.say(f"{job.name} gives its nodes back: it waited long, and others wait too", job.name)


def _waits_for(job: Job, other: Job) -> bool:
    if other.name == job.name or not other.goes_on or other.parked:
        return False
    lacks = other.vacant > 0 and other.number < job.number
    return other.phase is Phase.PENDING or lacks


def _overdue(turn: Turn, job: Job) -> None:
    """One that somebody stops is over anyhow, and no failure for the time that takes."""
    if job.wanted in (Wanted.STOP, Wanted.DELETE):
        return
    reason = f"its deadline of {job.plan.deadline_s or 0.0:g} s has passed"
    finish.fail(turn, job.name, Failure(reason=reason))


def _expired(turn: Turn, job: Job) -> None:
    """Only a finished job has this timer, and no other."""
    finish.drop(turn, job.name)


HANDLERS: dict[Timer, Callable[[Turn, Job], None]] = {
    Timer.GATHER: _gathered,
    Timer.DOUBT: _judged,
    Timer.STACKS: _no_stacks,
    Timer.CONNECT: executors.check_connect,
    Timer.QUIET: _not_quiet,
    Timer.STORE: _no_store,
    Timer.START: _no_start,
    Timer.SETTLE: _settled,
    Timer.MOVE: maintenance.on_time,
    Timer.SAVE: saving.out_of_time,
    Timer.SAVE_FAILS: saving.give_up,
    Timer.HOLD: _held_long,
    Timer.DEADLINE: _overdue,
    Timer.TTL: _expired,
}
