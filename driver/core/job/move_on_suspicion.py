"""A place that moves to another node without proof against the one that it had.

Called by the recovery, and by whoever asks whether it may before it gives up. Pure. Tests that find
nothing do not cure a node on which ranks die again and again: another one tells more. It is no
eviction: nothing is held against the node, other jobs may have it at once, and this one has it
again where it gets no better one. The last step is saved first, as in `maintenance`.
"""

from collections.abc import Iterable

from holdfast.driver.core.evidence import book
from holdfast.driver.core.job import candidates
from holdfast.driver.core.job.candidates import fitting, unwanted
from holdfast.driver.core.state.fact import About, Act, Bearing, Fact, Hypothesis
from holdfast.driver.core.state.fit import Use, fits
from holdfast.driver.core.state.model import Fault, Job, Phase
from holdfast.driver.core.state.node import Quiet
from holdfast.driver.core.turn import Turn

LEFT = "left without proof"
LOOK = "the store was not seen from there"
"""What is noted of a node that a job has left: in general, and where it could not look at its
store from there."""


def may_move(turn: Turn, job: Job, node: str | None) -> bool:
    """Whether the job's place on this node may be tried on another one: a standby or a free node
    that is there, that it has not moved off itself lately, and that can reach its other nodes."""
    if node is None or node not in job.places or node in job.leaving:
        return False
    own = [turn.nodes[standby] for standby in job.standbys]
    there = [node.name for node in own if fits(Use.PLACE, job, node, turn.now)]
    known = unwanted(turn, job, without=node)
    return any(
        other not in known for other in there + fitting(turn, job, turn.census.free(turn.now))
    )


def to_move(turn: Turn, job: Job, fault: Fault) -> str | None:
    """The node whose place is tried on another one first: the fault's, or where alone it showed, or
    the later one of two that cannot reach each other, so that rank 0 and its store stay, or the
    only one; None where there is none.
    """
    named = tuple(filter(None, [fault.node or fault.place]))
    only = job.places if job.layout.nodes == 1 else ()
    return one_of(turn, job, candidates.cut_off(turn, job, fault) or named or only)


def one_of(turn: Turn, job: Job, nodes: Iterable[str]) -> str | None:
    """The last, by rank, of these nodes whose place may move; None where there is none."""
    seated = sorted((node for node in nodes if node in job.places), key=job.places.index)
    return next((node for node in reversed(seated) if may_move(turn, job, node)), None)


def look(turn: Turn, job: Job) -> bool:
    """Have another node look at the store, where its host has long not come to an end and tells of
    an error; ranks there could not read it either. False: it is waited for.

    Where the look-up fails on as many nodes as that it is the store, and moving on cures nothing.
    """
    host, since_s = job.host, job.unsure_s
    told = turn.nodes[host].quiet_in(job.epoch)
    error = _cannot_look(told) if told is not None else ""
    if not error or since_s is None or turn.now - since_s < turn.policy.look_s:
        return False
    tried = [fact for fact in job.facts if fact.what == LOOK and fact.at_s >= since_s]
    if len(tried) >= turn.policy.look_tries or not may_move(turn, job, host):
        return False
    turn.say(f"{host} cannot tell what the store has ({error}): another node looks", job.name)
    turn.move(job.name, Phase.SUSPENDING)
    move(turn, job.name, host, why=LOOK)
    return True


def _cannot_look(host: Quiet) -> str:
    silent = host.agent_silent
    return host.store_error or (silent and f"its checkpoint agent is silent: {silent}")


def move(turn: Turn, name: str, node: str, *, why: str = LEFT) -> None:
    """Have the job leave the node once its ranks have ended."""
    leave_place(turn, name, node, why=why)
    turn.say(f"nothing is proved against {node}: it is free for others")


def leave_place(turn: Turn, name: str, node: str, *, why: str = LEFT) -> None:
    """The same, whatever becomes of the node then; the job has it again where it gets no better."""
    job = turn.jobs[name]
    turn.job(name, leaving=(*job.leaving, node))
    about = About(job=job.name, node=turn.nodes[node].subject)
    done, context = Act.MOVE_COLD, Bearing.CONTEXT
    turn.add_fact(Fact(subject=job.subject, what=why, bearing=context, about=about, done=done))


def may_wait(turn: Turn, job: Job, name: str) -> bool:
    """Whether the node is left for a guess of this fault, and for the first time: then it is stayed
    on rather than that a step is lost. The second time it may be what keeps steps from the store.
    """
    incident, node = turn.incidents.get(job.incident or 0), turn.nodes[name]
    table = incident.table if incident is not None else None
    guessed = table is not None and table.chosen is Hypothesis.NODE and table.act in book.MOVES
    left = [fact for fact in job.facts if fact.what == LEFT and fact.about.node == node.subject]
    return guessed and len(left) == 1
