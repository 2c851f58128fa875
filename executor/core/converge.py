"""One step of the executor: fold in what happened, then do what is missing. Pure.

Called by `executor.loop` with every event. Level-based: the rules below look only at what is wanted
and what is, so that a repeated message, or one that was lost, changes nothing.
"""

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.executor.core import actions as do
from holdfast.executor.core.care import agent_order
from holdfast.executor.core.events import AnyEvent
from holdfast.executor.core.fold import fold
from holdfast.executor.core.model import TESTING, Care, Exam, Run, State, own_seats, warm_key
from holdfast.protocol.messages import GRACEFUL, Desired, DiagnosticOrder, RankError, RankStatus

Step = tuple[State, list[do.AnyAction]]

QUIET_WAIT_S = 15.0
"""How long `quiet` waits for the agent to say what it holds and what the store has; verifying the
checksums of a store on a slow disk takes seconds, a dead agent must not hold a recovery up."""


def step(state: State, event: AnyEvent, now: float) -> Step:
    """What `event` leads to. `now` is monotonic seconds."""
    folded, actions = fold(state, event)
    for rule in _RULES:
        folded, more = rule(folded, now)
        actions += more
    if folded.fence != state.fence:
        actions.insert(0, do.Remember(fence=folded.fence))
    return folded, actions


def next_deadline(state: State, now: float) -> float | None:
    """When `Ticked` should come, or None."""
    return state.care.wait_until if state.care.wait_until > now else None


def _warm(state: State, now: float) -> Step:
    """The launcher is made ready for whatever task the node has, ranks or not; else for tests."""
    desired = state.desired
    task = desired.task if desired else None
    if task is None and desired and desired.diagnostics and not state.warmed:
        task = TESTING
    if task is None:
        return state, []
    key = warm_key(task)
    if key == state.warmed:
        return state, []
    launcher = "warming" if state.launcher == "cold" else state.launcher
    return replace(state, warmed=key, launcher=launcher), [do.Warm(task=task)]


def _clear(state: State, now: float) -> Step:
    """What runs but is not wanted is ended whole, before anything else is started."""
    desired = state.desired
    if desired is None or not (_stale(state) or state.clearing_s is not None):
        return state, []
    graceful = desired.stop in GRACEFUL and desired.task is not None
    grace_s = desired.task.grace_s if graceful and desired.task else 0.0
    if state.clearing_s is not None and grace_s >= state.clearing_s:
        return state, []
    clear = do.Clear(
        grace_s=grace_s,
        interrupt=graceful and desired.stop == "interrupt",
        rest=not graceful and _goes_on(state),
    )
    rests = _wanted(state) if clear.rest else None
    return replace(state, clearing_s=grace_s, rests=rests), [clear]


def _goes_on(state: State) -> bool:
    """Whether what ran is to run again, as soon as all agree where to begin; not where its ranks
    were told to end."""
    run = state.run
    if run is None or state.clearing_s is not None:
        return False
    return (run.job, *run.program) == _wanted(state)


def _wanted(state: State) -> tuple[str, ...] | None:
    """Job and program that run here, or are to as soon as they can."""
    desired = state.desired
    if desired is None or desired.job is None or desired.task is None or desired.diagnostics:
        return None
    return None if desired.stop in GRACEFUL else (desired.job, *warm_key(desired.task))


def _stale(state: State) -> bool:
    run, desired, exam = state.run, state.desired, state.exam
    if desired is None:
        return False
    if exam.running is not None and exam.running not in desired.diagnostics:
        return True
    if state.rests is not None and state.rests != _wanted(state):
        return True  # they rest for the next attempt of their own program alone
    if run is None:
        return False
    another = (run.job, run.epoch) != (desired.job, desired.epoch)
    return another or bool(run.seats and run.seats != own_seats(state))


def _host_rendezvous(state: State, now: float) -> Step:
    """One rendezvous process an epoch; a dead one is replaced while no rank knows its address."""
    desired = state.desired
    if desired is None or desired.job is None or not desired.host_rendezvous or _busy(state):
        return state, []
    run = state.run or Run(job=desired.job, epoch=desired.epoch)
    if run.rendezvous_asked:
        return state, []
    return (
        replace(state, run=replace(run, rendezvous_asked=True)),
        [
            do.HostRendezvous(
                job=desired.job,
                epoch=desired.epoch,
                logs=_logs(desired),
                meets=desired.task.rendezvous if desired.task else "",
            )
        ],
    )


def _logs(desired: Desired) -> str:
    return desired.task.log_root if desired.task else ""


def _busy(state: State) -> bool:
    return state.clearing_s is not None or state.exam.running is not None


def _start_ranks(state: State, now: float) -> Step:
    """Ranks are forked once an epoch: a rank that ended is reported, not started again."""
    desired, seats = state.desired, own_seats(state)
    if desired is None or desired.job is None or not seats or _busy(state):
        return state, []
    assert desired.task is not None, "the fence refuses seats without"
    run = state.run or Run(job=desired.job, epoch=desired.epoch)
    if run.seats:
        return state, []
    if state.fence.started:
        return replace(state, run=_lost(replace(run, seats=seats))), []
    ranks = {seat.rank: RankStatus(rank=seat.rank, state="starting") for seat in seats}
    started = replace(
        state,
        run=replace(run, seats=seats, ranks=ranks, program=warm_key(desired.task)),
        fence=replace(state.fence, started=True),
        rests=None,
    )
    agent_store = run.rendezvous_served or not run.rendezvous_asked
    return started, [do.StartRanks(desired=desired, seats=seats, agent_store=agent_store)]


def _lost(run: Run) -> Run:
    """The ranks of an executor that died: they died with it, and nobody saw how."""
    error = RankError(
        message="The executor of this node ended, and its ranks with it; it has been started again."
    )
    ranks = {
        seat.rank: RankStatus(rank=seat.rank, state="exited", signal=9, error=error, order=order)
        for order, seat in enumerate(run.seats, start=1)
    }
    return replace(run, ranks=ranks, exits=len(ranks))


def _diagnose(state: State, now: float) -> Step:
    """Diagnostics run one at a time, in the driver's order, on a node where nothing else runs."""
    orders = state.desired.diagnostics if state.desired else ()
    exam = state.exam
    kept = tuple(result for result in exam.results if any(_is_of(result, o) for o in orders))
    state = replace(state, exam=replace(exam, results=kept))
    runs = state.run is not None and any(r.state != "exited" for r in state.run.ranks.values())
    due = [order for order in orders if not any(_is_of(result, order) for result in kept)]
    if not due or runs or _busy(state):
        return state, []
    return replace(state, exam=Exam(running=due[0], results=kept)), [do.RunDiagnostic(order=due[0])]


def _is_of(result: object, order: DiagnosticOrder) -> bool:
    return all(
        getattr(result, name) == getattr(order, name) for name in ("id", "test", "round", "members")
    )


def _order_agent(state: State, now: float) -> Step:
    """The agent is told once nothing older runs, so that what it answers is final."""
    if state.clearing_s is not None or state.care.final:
        return state, []
    order = agent_order(state)
    if order is None:
        return state, []
    care = Care(
        order=order,
        report=state.care.report,
        absent=state.care.absent,
        wait_until=now + QUIET_WAIT_S,
    )
    return replace(state, care=care), [do.OrderAgent(order=order)]


_RULES: tuple[Callable[[State, float], Step], ...] = (
    _warm,
    _clear,
    _host_rendezvous,
    _start_ranks,
    _diagnose,
    _order_agent,
)
"""In this order: first what costs time in the background, then what makes room, then the rest."""
