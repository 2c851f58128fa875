"""What an event changes in the state, before the rules look at it. Pure."""

from msgspec.structs import replace

from holdfast.executor.core import actions as do
from holdfast.executor.core import events as ev
from holdfast.executor.core.fence import refusal
from holdfast.executor.core.model import Exam, Killed, Run, State
from holdfast.protocol.messages import Desired, RankStatus

Folded = tuple[State, list[do.AnyAction]]


def fold(state: State, event: ev.AnyEvent) -> Folded:
    """The state with `event` in it, and an answer where a desired state was refused."""
    match event:
        case ev.Instructed(desired=desired):
            return _instructed(state, desired)
        case ev.RankStarted() | ev.RankEnded() | ev.RankNotStarted():
            return _of_rank(state, event), []
        case ev.RoomLacked() | ev.MeetingLooked() | ev.RendezvousListening() | ev.RendezvousEnded():
            return _of_rendezvous(state, event), []
        case ev.AgentReported() | ev.AgentAbsent():
            return _of_agent(state, event), []
        case ev.Cleared():
            return _cleared(state, event), []
        case ev.DiagnosticEnded(result=result):
            return replace(state, exam=Exam(results=(*state.exam.results, result))), []
        case ev.LauncherChanged(state=launcher):
            return replace(state, launcher=launcher), []
        case ev.Ticked():
            return state, []


def _instructed(state: State, desired: Desired) -> Folded:
    refused = refusal(state.fence, state.node, desired)
    if refused is not None:
        return state, [do.Answer(refused=refused)]
    return replace(state, desired=desired, fence=state.fence.accept(desired)), []


def _cleared(state: State, event: ev.Cleared) -> State:
    exam = replace(state.exam, running=None)
    told = Killed(epoch=state.desired.epoch, ranks=event.killed) if state.desired else Killed()
    rests = state.rests if event.resting else None
    return replace(state, run=None, clearing_s=None, exam=exam, killed=told, rests=rests)


def _of_agent(state: State, event: ev.AgentReported | ev.AgentAbsent) -> State:
    match event:
        case ev.AgentReported(report=report):
            return replace(state, care=replace(state.care, report=report, absent=""))
        case ev.AgentAbsent(why=why, final=final):
            return replace(state, care=replace(state.care, absent=why, final=final))


def _current(state: State, job: str, epoch: int) -> Run | None:
    run = state.run
    return run if run is not None and (run.job, run.epoch) == (job, epoch) else None


def _of_rank(state: State, event: ev.RankStarted | ev.RankEnded | ev.RankNotStarted) -> State:
    run = _current(state, event.job, event.epoch)
    if run is None:
        return state
    status, exits = _status(run, event)
    return replace(state, run=replace(run, ranks={**run.ranks, status.rank: status}, exits=exits))


def _status(
    run: Run, event: ev.RankStarted | ev.RankEnded | ev.RankNotStarted
) -> tuple[RankStatus, int]:
    match event:
        case ev.RankStarted(rank=rank, pid=pid):
            return RankStatus(rank=rank, state="running", pid=pid), run.exits
        case ev.RankEnded(status=status):
            return replace(status, order=run.exits + 1), run.exits + 1
        case ev.RankNotStarted(rank=rank, exit_code=code, error=error):
            status = RankStatus(
                rank=rank, state="exited", exit_code=code, error=error, order=run.exits + 1
            )
            return status, run.exits + 1


def _of_rendezvous(
    state: State,
    event: ev.RoomLacked | ev.MeetingLooked | ev.RendezvousListening | ev.RendezvousEnded,
) -> State:
    run = _current(state, event.job, event.epoch)
    if run is None:
        return state
    match event:
        case ev.RoomLacked(why=why):
            return replace(state, run=replace(run, lacks=why))
        case ev.MeetingLooked(why=why):
            return replace(state, run=replace(run, meeting=why))
        case ev.RendezvousListening(rendezvous=rendezvous, served=served):
            return replace(state, run=replace(run, rendezvous=rendezvous, rendezvous_served=served))
        case ev.RendezvousEnded():
            forgotten = replace(run, rendezvous=None, rendezvous_asked=bool(run.seats))
            return replace(state, run=forgotten)
