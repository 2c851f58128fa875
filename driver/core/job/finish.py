"""The ends of a job's life, and its rests: succeeded, failed, stopped, suspended, dropped.

Called by the machines. Pure. Whatever ends a job closes its incident and gives all its nodes back;
a finished job stays finished.
"""

from holdfast.driver.core.attempt import saving
from holdfast.driver.core.attempt.quiet import killed_of
from holdfast.driver.core.attempt.tally import exits_of
from holdfast.driver.core.faults import incidents
from holdfast.driver.core.job.allocation import give_back
from holdfast.driver.core.job.epochs import open_epoch
from holdfast.driver.core.state.model import Failure, Phase, Timer, Wanted
from holdfast.driver.core.turn import Turn
from holdfast.telemetry.analysis.ends import failed

KEPT_EXITS = 16
"""Of a finished job: more than anybody is shown of them."""
BEFORE_RANKS = frozenset({Phase.PENDING, Phase.ALLOCATING, Phase.SUSPENDED})
"""Phases in which no rank can be anywhere."""
TOLD_RANKS = 8
"""As many as a line has room for."""


def succeed(turn: Turn, name: str) -> None:
    turn.move(name, Phase.RUNNING)
    _save_and_end(turn, name, Phase.SUCCEEDED)


def fail(turn: Turn, name: str, failure: Failure) -> None:
    """Give the job up, with its evidence. One that is over already stays what it was."""
    if turn.jobs[name].ends is None:
        turn.job(name, failure=failure)
        _save_and_end(turn, name, Phase.FAILED)


def stop(turn: Turn, name: str) -> None:
    """It has nothing running: it ends as what it had come to, else it is stopped."""
    _end(turn, name, turn.jobs[name].ends or Phase.STOPPED)


def suspend(turn: Turn, name: str) -> None:
    """Put the job aside: no nodes, its place in the queue kept."""
    incidents.back(turn, name, "the job was suspended before it was back")
    killed = _killed(turn, name)
    give_back(turn, name)
    turn.job(name, unsure_s=None, repeating=None)
    turn.move(name, Phase.SUSPENDED)
    turn.drop_timers(name, *(timer for timer in Timer if timer is not Timer.DEADLINE))
    turn.say(f"{name} is suspended and has given its nodes back{killed}", name)


def drop(turn: Turn, name: str) -> None:
    """Forget a finished job; the journal keeps its story."""
    turn.drop_job(name)
    turn.say(f"{name} is deleted")


def _killed(turn: Turn, name: str) -> str:
    """`: rank 3 was killed, for it ran on 30 s after SIGTERM`; "" where each ended by itself."""
    job = turn.jobs[name]
    killed = killed_of(turn.nodes, job) if job.phase is Phase.SUSPENDING else ()
    if not killed:
        return ""
    many = len(killed) > 1
    more = f" and {len(killed) - TOLD_RANKS:,} more" if len(killed) > TOLD_RANKS else ""
    named = f"rank{'s' * many} {', '.join(map(str, killed[:TOLD_RANKS]))}{more}"
    were, they = ("were", "they") if many else ("was", "it")
    told = "Ctrl-C" if job.stop == "interrupt" else "SIGTERM"
    return f": {named} {were} killed, for {they} ran on {job.plan.grace_s:g} s after {told}"


def _save_and_end(turn: Turn, name: str, phase: Phase) -> None:
    """End it; first, what may be in its nodes' memory alone goes to the store."""
    job = turn.job(name, save=None, saving=None)
    if job.phase in BEFORE_RANKS or not saving.may_be_left(turn, job):
        _end(turn, name, phase)
        return
    turn.say(f"{name} saves its last step before it ends", name)
    _keep_first_causes(turn, name)
    turn.job(name, ends=phase)
    turn.move(name, Phase.SUSPENDING)
    if job.seated:
        open_epoch(turn, name)


def _end(turn: Turn, name: str, phase: Phase) -> None:
    """It is over, and its nodes are free."""
    sentence = _told(turn, name, phase)
    incidents.back(turn, name, sentence)
    _keep_first_causes(turn, name)
    give_back(turn, name, forget=name)
    turn.move(name, phase)
    turn.forget_stores(name)
    turn.job(name, timers={}, tried={}, unfit={}, parked="", backoff=None, unsure_s=None, ends=None)
    turn.say(sentence, name)
    job = turn.jobs[name]
    if job.wanted is Wanted.DELETE:
        drop(turn, name)
    elif job.plan.ttl_s is not None:
        turn.set_timer(name, Timer.TTL, job.plan.ttl_s)


def _told(turn: Turn, name: str, phase: Phase) -> str:
    job = turn.jobs[name]
    if phase is Phase.SUCCEEDED:
        return f"{name} is done: every rank ended with exit code 0"
    if phase is Phase.FAILED:
        return f"{name} is given up: {job.failure.reason if job.failure else ''}"
    return f"{name} is stopped{_killed(turn, name)}"


def _keep_first_causes(turn: Turn, name: str) -> None:
    """Of thousands of ends those that tell why, and the furthest: each later commit has them."""
    exits = exits_of(turn.nodes, turn.jobs[name])
    if turn.jobs[name].ends is not None:
        return  # they were kept when its ranks had ended
    if len(exits) <= KEPT_EXITS:
        turn.job(name, exits=exits)
        return
    causes = [each for each in exits if failed(each.status)][:KEPT_EXITS]
    furthest = max(exits, key=lambda each: -1 if each.step is None else each.step)
    kept = causes if furthest in causes else [*causes, furthest]
    turn.job(name, exits=tuple(kept), ended=len(exits))
