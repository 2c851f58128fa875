"""Leaving nodes in peace: somebody gave notice that they are to be free; nothing is wrong there.

Called by `decide`, by `advance` and by whoever hears of a notice. Pure. A job trains on until a
node is there, and warm, for each that it leaves, or until their time is over. Then all ranks end,
the last step that all have in memory goes to the store, and only then the nodes are left. No step
is lost unless that store fails, nobody is blamed, and no restart is spent.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from holdfast.driver.core.attempt import saving
from holdfast.driver.core.events import ExecutorEnding
from holdfast.driver.core.evidence import book
from holdfast.driver.core.faults import incidents
from holdfast.driver.core.job import move_on_suspicion
from holdfast.driver.core.job.allocation import SAID_NODES, leave, ready
from holdfast.driver.core.job.epochs import open_epoch
from holdfast.driver.core.state.fact import Act
from holdfast.driver.core.state.model import Fault, Job, Phase, Timer
from holdfast.driver.core.state.node import Against, Free, Node, Source, Suspect, Trusted
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Evidence, Kind, Rung, Weight
from holdfast.protocol.messages import Stored

NOTICE = "notice"
"""Source of the evidence that a node was to be free."""

JITTER_S = 2.0
"""By which a time that is told again may differ from what it was, and be the same."""

# ---------------------------------------------------------------- notices


def on_ending(turn: Turn, event: ExecutorEnding) -> None:
    node = turn.nodes.get(event.node)
    if node is None or node.job != event.job or not node.allocated:
        return
    by_s = turn.now + event.within_s
    returns = not event.evicted
    notice = Against(why=event.why, by_s=by_s, returns=returns)
    give(turn, event.node, Source.EXECUTOR, notice)


def give(turn: Turn, node: str, source: Source, notice: Against) -> None:
    """Note that the node is to be free; what a job has there moves. Told again it is no news."""
    known = turn.nodes[node]
    if source in known.against and _same(known.against[source], notice):
        return
    turn.object_to(node, source, notice)
    turn.say(f"{node} is to be free{_within(turn, notice)}: {notice.why}")
    job = turn.jobs.get(known.job or "")
    if job is None:
        if isinstance(known.holding, Free):
            turn.say(f"nothing runs on {node}: it is free now")
        return
    if node in job.standbys or job.phase is Phase.ALLOCATING:
        turn.say(f"{job.name} does without {node}", job.name)
        leave(turn, node)
        return
    if node not in job.leaving:
        turn.job(job.name, leaving=(*job.leaving, node))
    if source in known.against or Timer.MOVE not in job.timers:
        _set_time(turn, job.name)
    else:
        _set_earlier(turn, job, notice)


def withdraw(turn: Turn, node: str, source: Source) -> None:
    """As far as this source goes the node need not be free any more."""
    if source not in turn.nodes[node].against:
        return
    if (other := turn.object_to(node, source, None).notice) is not None:
        turn.say(f"{node} is still to be free: {other.why}")
        return
    turn.say(f"{node} need not be free any more")
    job = turn.jobs.get(turn.nodes[node].job or "")
    if job is not None:
        kept = isinstance(turn.nodes[node].trust, Suspect)  # which it leaves for another reason
        leaving = tuple(other for other in job.leaving if other != node or kept)
        job = turn.job(job.name, leaving=leaving)
        if not job.leaving:
            if job.goes_on:  # else it saves before it ends
                turn.drop_timers(job.name, Timer.SAVE, Timer.SAVE_FAILS)
            if trains(job):  # it waited for a node to move to
                turn.job(job.name, waiting="")
        _set_time(turn, job.name)


def _same(known: Against, told: Against) -> bool:
    if known.why != told.why:
        return False
    if known.by_s is None or told.by_s is None:
        return known.by_s == told.by_s
    return abs(known.by_s - told.by_s) <= JITTER_S


def _within(turn: Turn, notice: Against) -> str:
    return "" if notice.by_s is None else f" within {max(0.0, notice.by_s - turn.now):.0f} s"


def _times(turn: Turn, job: Job) -> Iterator[float]:
    """When each of the nodes that it has to leave has to be free, of those that have a time."""
    for node in job.leaving:
        times = (notice.by_s for notice in turn.nodes[node].notices())
        yield from (by_s for by_s in times if by_s is not None)


def _due_s(turn: Turn, job: Job) -> float | None:
    """When it has to move, another node there or not, so that its last step can be saved. Where
    ranks have ended well it is likely to be done soon: the others get half of that time.
    """
    by_s = min(_times(turn, job), default=None)
    ends_well = _runs(job) and job.tally.ended
    save_s = turn.policy.save_s / 2 if ends_well else turn.policy.save_s
    return None if by_s is None else by_s - save_s


def _set_time(turn: Turn, name: str) -> None:
    """Look at the job again when it has to move."""
    turn.drop_timers(name, Timer.MOVE)
    due_s = _due_s(turn, turn.jobs[name])
    if due_s is not None:
        turn.set_timer(name, Timer.MOVE, max(0.0, due_s - turn.now))


def on_time(turn: Turn, job: Job) -> None:
    """Where it trains its ranks are ended now; else it looks at the time itself."""
    if _time_is_over(turn, job):
        turn.say(f"the time to leave {', '.join(job.leaving)} has come", job.name)
    else:
        _set_time(turn, job.name)


def _set_earlier(turn: Turn, job: Job, notice: Against) -> None:
    """As `_set_time` where there is one more notice: thousands come one after the other."""
    if notice.by_s is None:
        return
    at_s = max(turn.now, notice.by_s - turn.policy.save_s)
    if at_s < job.timers[Timer.MOVE]:
        turn.set_timer(job.name, Timer.MOVE, at_s - turn.now)


# ---------------------------------------------------------------- when to move


def begin(turn: Turn) -> None:
    """End the ranks of jobs that train on a node which they may leave now."""
    for name in turn.each_job(turn.jobs):
        job = turn.jobs[name]
        if not (job.leaving and _runs(job)):
            continue
        if _time_is_over(turn, job) or (trains(job) and _may_leave(turn, job, warm=True)):
            _begin(turn, job)
        elif trains(job):
            _wait(turn, job)


def trains(job: Job) -> bool:
    """It runs undisturbed. While ranks end, of a fault or for good, that comes first."""
    return _runs(job) and not job.tally.ended


def _runs(job: Job) -> bool:
    """It trains, or has ranks that go on though others have ended well."""
    wanted = job.goes_on and not job.parked
    has_ranks = not job.tally.failed and job.tally.ended < job.world_size
    return wanted and job.phase is Phase.RUNNING and has_ranks and job.held is None


def _may_leave(turn: Turn, job: Job, *, warm: bool = False) -> bool:
    """Another node is there for each, and `warm`, or the time is over; it is where they failed the
    job, or a person evicted one of them.
    """
    left = (turn.nodes[node] for node in job.leaving)
    if all(node.notice is None for node in left):
        return True
    if turn.nodes[job.leaving[0]].quarantined:  # whom a person evicts stands first
        return True
    if _time_is_over(turn, job):
        return True
    if not job.standbys:  # while nobody else is to be had
        return all(_comes_back(turn.nodes[node]) for node in job.leaving)
    there = [node for node in job.standbys if ready(turn.nodes[node])]
    may = [node for node in there if not (warm and _cold(job, turn.nodes[node]))]
    return len(may) >= len(job.leaving)


def _time_is_over(turn: Turn, job: Job) -> bool:
    """Whether the first of them has to be left now. Until its timer is due nobody looks at all of
    them: this is asked at each event, of thousands."""
    if turn.now < job.timers.get(Timer.MOVE, turn.now):
        return False
    due_s = _due_s(turn, job)
    return due_s is not None and turn.now >= due_s


def _cold(job: Job, standby: Node) -> bool:
    """Whether it has still to import what ranks need, or did not say yet that it has."""
    quiet = standby.quiet_in(job.epoch)
    return quiet is None or quiet.warming


def _comes_back(node: Node) -> bool:
    """Whether only its executor has to go, and may be followed by another."""
    executor = node.against.get(Source.EXECUTOR)
    return executor is not None and executor.returns and len(node.against) == 1


def _named(nodes: Sequence[str]) -> str:
    """A few of them: it is said anew with each one more."""
    more = len(nodes) - SAID_NODES
    return ", ".join([*nodes[:SAID_NODES], *([f"{more} more"] if more > 0 else [])])


def _wait(turn: Turn, job: Job) -> None:
    """It trains on: said with what it waits for."""
    left = f"{_named(job.leaving)} {'is' if len(job.leaving) == 1 else 'are'} to be free"
    if len(job.standbys) < len(job.leaving):
        turn.wait_for(job.name, f"{left}: it trains on there until there is another node for it")
    else:
        cold = [node for node in job.standbys if _cold(job, turn.nodes[node])]
        turn.wait_for(job.name, f"{left}: it trains on there until {_named(cold)} is ready")


def _begin(turn: Turn, job: Job) -> None:
    summary = f"{job.name} moves off {', '.join(job.leaving)}"
    fault = Fault(
        kind=Kind.MAINTENANCE,
        weight=Weight.CONCLUSIVE,
        summary=summary,
        evidence=tuple(_evidence(turn, job)),
    )
    incident = incidents.open_or_join(turn, job.name, fault)
    nodes = tuple(dict.fromkeys((*incident.nodes, *job.leaving)))
    turn.incident(incident.id, nodes=nodes, rung=max(Rung.REPLACE, incident.rung))
    turn.say(f"{summary}: its last step is saved first", job.name)
    turn.move(job.name, Phase.SUSPENDING)
    open_epoch(turn, job.name, stop="grace")


def _evidence(turn: Turn, job: Job) -> Iterator[Evidence]:
    for node in job.leaving:
        for notice in turn.nodes[node].notices():
            yield Evidence(source=NOTICE, text=f"{node} is to be free: {notice.why}")


# ---------------------------------------------------------------- saving, and leaving


def leave_nodes(turn: Turn, name: str) -> bool:
    """Leave what the job has to leave, once its last step is in the store. False: not there yet.

    Asked when all its ranks have ended, for whatever reason.
    """
    job = turn.jobs[name]
    if not job.leaving:
        return True
    if not (job.save or _may_leave(turn, job)):
        _keep_suspects(turn, job)
        return True
    point = saving.unsaved(turn, job)
    if point is not None and job.save is None:
        saving.begin(turn, job, point, by_s=min(_saved_by(turn, job), default=None))
    if point is not None and saving.is_awaited(turn, job.name):
        return False
    if point is not None:  # it cannot be saved: no step is risked for a suspicion
        job = _keep_guessed(turn, _keep_suspects(turn, job))
    _leave(turn, job)
    return True


def swap_places(turn: Turn, name: str) -> bool:
    """Have two of the job's places change nodes, once its last step is in the store: in memory each
    rank would find another's. False: not there yet. Where it cannot be saved they stay, and it may
    be asked again.
    """
    job = turn.jobs[name]
    point = saving.unsaved(turn, job)
    if point is not None and job.save is None:
        saving.begin(turn, job, point, by_s=turn.now + job.plan.diagnose_s)
    if point is not None and saving.is_awaited(turn, name):
        return False
    turn.drop_timers(name, Timer.SAVE, Timer.SAVE_FAILS)
    if why := _why_not(job, point):
        _keep_places(turn, job, why)
    else:
        _swap(turn, job)
    turn.job(name, swaps="")
    return True


def _why_not(job: Job, unsaved: Stored | None) -> str:
    """What keeps two places from changing nodes; "" for nothing."""
    if job.swaps not in job.places:
        return f"{job.swaps} is not in it any more"
    if job.vacant:
        return "another place of the job has no node now"
    return "" if unsaved is None else f"step {unsaved.step} could not be saved first"


def _keep_places(turn: Turn, job: Job, why: str) -> None:
    """Tell it, and take down that ranks were only started again."""
    told = f"no places were swapped, for {why}"
    turn.say(f"{job.name}: {told}", job.name)
    turn.job(job.name, facts=book.not_swapped(job.facts, job.name))
    if (node := turn.nodes.get(job.swaps)) is not None:
        facts = book.not_swapped(node.record.facts, job.name)
        turn.set_record(job.swaps, replace(node.record, facts=facts))
    incident = turn.incidents.get(job.incident or 0)
    if incident is not None and incident.table is not None and incident.table.act is Act.SWAP:
        turn.incident(incident.id, table=incident.table.done_instead(Act.RESTART, told))


def _swap(turn: Turn, job: Job) -> None:
    """With another place of its rack, if there is one; rank 0 stays where that may be."""
    places = [*job.places]
    one = places.index(job.swaps)
    rack = turn.nodes[job.swaps].rack
    others = [other for other in range(len(places)) if other != one]
    other = min(others, key=lambda k: (turn.nodes[places[k]].rack != rack, -k))
    places[one], places[other] = places[other], places[one]
    turn.places(job.name, tuple(places))
    turn.say(f"{places[one]} and {places[other]} change places", job.name)


def _saved_by(turn: Turn, job: Job) -> Iterator[float]:
    """When the last step has to be saved: suspects are not worth a longer wait than their tests."""
    yield from _times(turn, job)
    if any(isinstance(turn.nodes[node].trust, Suspect) for node in job.leaving):
        yield turn.now + job.plan.diagnose_s


def _keep_suspects(turn: Turn, job: Job) -> Job:
    """Suspects that cannot be left are tested in their places, while the job stands still."""
    suspects = [node for node in job.leaving if _accused(turn, job, node)]
    for node in suspects:
        turn.set_trust(node, Trusted())
        turn.say(f"{node} cannot be left now: {job.name} stands still for its tests", job.name)
    leaving = tuple(node for node in job.leaving if node not in suspects)
    return turn.job(job.name, leaving=leaving, suspects=(*job.suspects, *suspects))


def _keep_guessed(turn: Turn, job: Job) -> Job:
    """Who would be left without tests stays: nothing is proved against it."""
    stay = [node for node in job.leaving if _guessed(turn, job, turn.nodes[node])]
    for node in stay:
        turn.say(f"{node} cannot be left now: {job.name} stays on it", job.name)
    return turn.job(job.name, leaving=tuple(node for node in job.leaving if node not in stay))


def _guessed(turn: Turn, job: Job, node: Node) -> bool:
    proved = node.notice is not None or not isinstance(node.trust, Trusted)
    return not proved and move_on_suspicion.may_wait(turn, job, node.name)


def _accused(turn: Turn, job: Job, name: str) -> bool:
    """Of a suspect that its tests made one there is nobody to test it beside where it is; one that
    was stayed on before may be what keeps steps from the store."""
    trust = turn.nodes[name].trust
    if not isinstance(trust, Suspect) or trust.beside:
        return False
    return trust.beside is None or move_on_suspicion.may_wait(turn, job, name)


def _leave(turn: Turn, job: Job) -> None:
    turn.drop_timers(job.name, Timer.SAVE, Timer.SAVE_FAILS, Timer.MOVE)
    leave(turn, *job.leaving)
    if job.leaving:
        turn.say(f"{job.name} has left {', '.join(job.leaving)}", job.name)
