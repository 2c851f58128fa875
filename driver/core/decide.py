"""`decide(state, event, now, policy) -> Decision`: the one reducer over the cluster and its jobs.

Called by the driver's loop, the tests and the simulator. Pure: no I/O, no clock, no randomness. The
machines it hands an event to are in the other modules of this folder, one a topic.
"""

from collections.abc import Callable
from typing import Any

from holdfast.driver.core import events as e
from holdfast.driver.core.advance import advance
from holdfast.driver.core.handlers import (
    exam_callers,
    executors,
    findings,
    nodes,
    oom_killed,
    ranks,
    requests,
    stalls,
    ticks,
    told,
)
from holdfast.driver.core.job import eviction, maintenance
from holdfast.driver.core.job.allocation import schedule
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.recovery.case_of import note_back
from holdfast.driver.core.state.census import Census
from holdfast.driver.core.state.model import State
from holdfast.driver.core.state.node import Awaited, Never
from holdfast.driver.core.state.orders import calls_for
from holdfast.driver.core.testing import asked, standbys
from holdfast.driver.core.turn import Decision, Subject, Turn

MAX_ROUNDS = 50
"""Each round of scheduling and advancing changes a job or is the last; jobs take a few steps."""


def decide(
    state: State, event: e.AnyEvent, now: float, policy: Policy, census: Census | None = None
) -> Decision:
    """What follows from `event` at driver second `now`. `census`: whoever decides again and again
    keeps one, for it spares a look along all nodes.

    The state in the answer has the sequence number that the journal entry must get. Where nothing
    follows, the answer is idle and its state the one given. Raises `IllegalTransition` for a defect
    of ours; the loop then parks the job.
    """
    return conclude(Turn(state, now, policy, census), event)


def conclude(turn: Turn, event: e.AnyEvent) -> Decision:
    """What follows from `event`. Where that raises, the turn's subject says in whose affairs: where
    it was between two of them, whom the event concerns, if anybody."""
    turn.subject = subject_of(turn.before, event)
    if (node := turn.subject.node) in turn.before.nodes and node is not None:
        turn.about[node] = None
    # Time alone frees some, too: what is due of nodes and of the cluster comes last of a tick.
    turn.supply = event == e.Ticked() or isinstance(event, e.Stalled | e.DriverStarted)
    HANDLERS[type(event)](turn, event)
    settle(turn)
    return turn.close()


def noted(state: State, event: e.AnyEvent, why: str, now: float, policy: Policy) -> Decision:
    """Of the event what is true of a node or a checkpoint, and nothing that follows from it."""
    turn = Turn(state, now, policy)
    if note := FACTS.get(type(event)):
        note(turn, event)
    turn.say(f"nothing {'else ' if turn.reasons else ''}follows: {why}")
    return turn.close()


def settle(turn: Turn) -> None:
    """Give out nodes and advance jobs until nothing more follows."""
    for _ in range(MAX_ROUNDS):
        if any(job.leaving for job in turn.jobs.values()):
            maintenance.begin(turn)
        if turn.supply:
            turn.supply = False
            schedule(turn)
        moved = [name for name in turn.each_job(_concerned(turn)) if advance(turn, name)]
        if not moved:
            if any(job.standbys for job in turn.jobs.values()):
                standbys.keep(turn)
            return
    raise AssertionError(f"no end of steps after {MAX_ROUNDS} rounds: {'; '.join(turn.reasons)}")


def _concerned(turn: Turn) -> list[str]:
    """Jobs that this event touched, themselves or through their nodes."""
    holders = {turn.nodes[node].job: None for node in turn.touched_nodes}
    return [name for name in turn.touched_jobs | holders if name is not None]


def subject_of(state: State, event: e.AnyEvent) -> Subject:
    """Whom the event concerns: its job, else the job that has its node, and its node."""
    about = event.finding if isinstance(event, e.Found) else event
    name: str | None = getattr(about, "node", None)
    node = state.nodes.get(name or "")
    job: str | None = getattr(about, "job", None)
    return Subject(job=job or (node.job if node is not None else None), node=name)


def _on_driver_started(turn: Turn, event: e.DriverStarted) -> None:
    """A new term: everything open is ordered anew, and every executor has to come back that was
    there. Those that never came to their job have their own time for that.
    """
    turn.term = max(turn.term + 1, event.term)
    turn.effects += [call for node in turn.before.nodes.values() for call in calls_for(node)]
    note_back(turn)
    findings.drop_unseen(turn)
    back_s = turn.now + turn.policy.return_s
    for node in list(turn.nodes.values()):
        if node.stranger:
            executors.forget_stranger(turn, node)
            continue
        if isinstance(node.link, Never):
            continue
        was_there = node.connected or node.silent_check_s is not None
        link = Awaited(
            incarnation=node.incarnation,
            address=node.address,
            check_s=back_s if node.job is not None and was_there else None,
        )
        turn.set_link(node.name, link)
        if was_there:
            executors.back_by(turn, node.name, back_s)
    turn.say(f"a driver took over, term {turn.term}")


FACTS: dict[type[e.Event], Callable[[Turn, Any], object]] = {
    e.NodeAppeared: nodes.note_there,
    e.NodeVanished: nodes.note_gone,
    e.NodeAllocated: nodes.on_allocated,
    e.NodeReleased: nodes.on_released,
    e.NodeDistrusted: nodes.on_distrusted,
    e.NodeTrusted: nodes.on_trusted,
    e.ClusterCallFailed: nodes.on_call_failed,
    e.ExecutorEnded: nodes.note_ended,
    e.ExecutorConnected: executors.note_connected,
    e.ExecutorDisconnected: executors.note_disconnected,
    e.CheckpointStored: ranks.on_stored,
}
"""What is true of a node or a checkpoint once the event has happened, whatever should follow: it is
not said again, so that it is noted where a defect stands in the way of the rest."""

HANDLERS: dict[type[e.Event], Callable[[Turn, Any], None]] = {
    e.JobSubmitted: requests.on_submitted,
    e.UpdateRequested: requests.on_updated,
    e.SuspendRequested: requests.on_suspend,
    e.ResumeRequested: requests.on_resume,
    e.StopRequested: requests.on_stop,
    e.DeleteRequested: requests.on_delete,
    e.NodeEvictRequested: requests.on_evict,
    e.NodeRestoreRequested: requests.on_restore,
    e.NodeMaintainRequested: requests.on_maintain,
    e.NodeFactTold: told.on_node_fact,
    e.JobFactTold: told.on_job_fact,
    e.DiagnoseRequested: asked.on_request,
    e.DiagnoseEndRequested: asked.on_end,
    e.CalibrateRequested: asked.on_calibrate,
    e.BrakeApplyRequested: eviction.on_brake,
    e.BrakeReleaseRequested: eviction.on_brake,
    e.NodeAppeared: nodes.on_appeared,
    e.NodeVanished: nodes.on_vanished,
    e.NodeFits: nodes.on_fits,
    e.ExecutorEnded: nodes.on_ended,
    e.ExecutorEnding: maintenance.on_ending,
    e.ExecutorLingers: nodes.on_lingers,
    e.ExecutorStarved: oom_killed.on_starved,
    e.ExecutorConnected: executors.on_connected,
    e.ExecutorDisconnected: executors.on_disconnected,
    e.NodeQuiet: ranks.on_quiet,
    e.CheckpointStored: ranks.on_stored,
    e.RendezvousReady: ranks.on_rendezvous_ready,
    e.RendezvousLost: ranks.on_rendezvous_lost,
    e.RanksRunning: ranks.on_running,
    e.RanksExited: ranks.on_exited,
    e.DesiredRefused: findings.on_refused,
    e.DiagnosticEnded: exam_callers.on_ended,
    e.Found: findings.on_found,
    e.StepsRepeated: ranks.on_repeated,
    e.RanksLeft: requests.on_left,
    e.FasterSeen: ranks.on_faster,
    e.SaveProgressed: ranks.on_saving,
    e.ProgressSeen: ranks.on_progress,
    e.NodeAllocated: nodes.on_allocated,
    e.AllocationFailed: nodes.on_allocation_failed,
    e.NodeReleased: nodes.on_released,
    e.NodeDistrusted: nodes.on_distrusted,
    e.NodeTrusted: nodes.on_trusted,
    e.ClusterCallFailed: nodes.on_call_failed,
    e.StacksTaken: findings.on_stacks,
    e.StacksFailed: findings.on_stacks,
    e.Ticked: ticks.on_tick,
    e.Stalled: stalls.on_stalled,
    e.DriverStarted: _on_driver_started,
}
