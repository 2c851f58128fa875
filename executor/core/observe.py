"""What the driver is told: the whole of what the executor sees, made from its state. Pure."""

from holdfast.executor.core.care import answered, current, looking, settled
from holdfast.executor.core.model import Run, State
from holdfast.protocol.messages import Observed


def observed(state: State, *, sequence: int, now: float) -> Observed:
    """The report on the desired state that was accepted last.

    Ranks of an older epoch are never shown: while they are being ended the node is not `quiet`, and
    that is all there is to say about them.
    """
    desired, run, report = state.desired, _shown(state), state.care.report
    same_job = report is not None and desired is not None and report.job == desired.job
    agent = report if same_job and not state.care.final else None
    told = current(state.care) if agent else None
    return Observed(
        node=state.node,
        incarnation=state.incarnation,
        sequence=sequence,
        generation=desired.generation if desired else 0,
        epoch=desired.epoch if desired else 0,
        job=desired.job if desired else None,
        attempt=desired.attempt if desired else 0,
        ranks=tuple(run.ranks[rank] for rank in sorted(run.ranks)) if run else (),
        quiet=quiet(state, now),
        killed=state.killed.ranks if desired and desired.epoch == state.killed.epoch else (),
        rendezvous=run.rendezvous if run else None,
        meeting=run.meeting if run else None,
        snapshots=agent.snapshots if agent else (),
        peer_port=agent.peer_port if agent else 0,
        stored=told.stored if told else (),
        damaged=told.damaged if told else (),
        looking=_looking(state),
        preparing=_preparing(run, state.launcher),
        store_error=agent.store_error if agent else _absence(state),
        agent_silent=_silence(state, now),
        saved_bytes=told.saved_bytes if told else 0,
        store_shared=told.store_shared if told else None,
        store_missing=told.store_missing if told else "",
        undeleted=told.undeleted if told else "",
        swept=told.swept if told else False,
        diagnostics=state.exam.results,
        launcher=state.launcher,
        persisted_step=told.persisted_step if told else None,
        skipped_saves=agent.skipped_saves if agent else 0,
        skipped_why=agent.skipped_why if agent else "",
        skipped_in_a_row=agent.skipped_in_a_row if agent else 0,
        unlike=told.unlike if told else None,
    )


def free(state: State, now: float) -> bool:
    """Whether nothing is wanted of this node, and nothing is left of what was.

    What a job that is over has still to write is awaited, as long as the agent has for an answer.
    """
    desired = state.desired
    if desired is None:
        return True
    over = desired.job is None and state.run is None and state.clearing_s is None
    return over and answered(state.care, now)


def _shown(state: State) -> Run | None:
    run, desired = state.run, state.desired
    if run is None or desired is None:
        return None
    return run if (run.job, run.epoch) == (desired.job, desired.epoch) else None


def _looking(state: State) -> str:
    order, desired = state.care.order, state.desired
    same_job = order is not None and desired is not None and order.job == desired.job
    return looking(state.care) if same_job else ""


def _preparing(run: Run | None, launcher: str) -> str:
    """The rendezvous is forked from the launcher, which ends what stands still in it. Without one
    it imports torch itself, and is given up for a bare port, so that both come to an end.
    """
    waits = run is not None and run.rendezvous_asked and run.rendezvous is None
    if waits and run is not None and run.lacks:
        return run.lacks
    if waits and launcher == "warming":
        return "it imports what the ranks need"
    return "its rendezvous imports torch" if waits and launcher.startswith("none") else ""


def _absence(state: State) -> str:
    care = state.care
    return f"no checkpoint agent: {care.absent}" if care.absent and care.order else ""


def _silence(state: State, now: float) -> str:
    """What an agent that stands still was asked: nobody knows what that says of the store."""
    care, order = state.care, state.care.order
    if order is None or care.final or care.absent:
        return ""
    if current(care) is not None or now < care.wait_until:
        return ""
    if order.save is not None:
        return "it has not answered to the order to save the last step"
    return "it has not said what the store has" if order.look_up_store else ""


def quiet(state: State, now: float) -> bool:
    """Whether nothing older is left and, where one is to restore from it, the agent has spoken.

    A job that is over is older until the agent has written what was due of it, or given that up.
    Before a first desired state an executor cannot say what is older, nor what it holds of a job.
    """
    if state.clearing_s is not None or state.desired is None:
        return False
    if state.desired.job is None:
        return settled(state.care)
    return bool(state.desired.seats) or answered(state.care, now)
