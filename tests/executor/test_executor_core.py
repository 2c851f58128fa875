"""The executor's decisions, without a process: what is started, ended, refused and told."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from holdfast.checkpoint.agent_protocol import AgentReport
from holdfast.executor.core import actions as do
from holdfast.executor.core import events as ev
from holdfast.executor.core.converge import QUIET_WAIT_S, step
from holdfast.executor.core.fence import Fence
from holdfast.executor.core.model import State
from holdfast.executor.core.observe import free, observed
from holdfast.protocol import messages as m

NODE = "node-1"
TASK = m.Task(command=("python", "train.py"), workdir="/", grace_s=7)
FOREIGN = m.Seat(rank=8, local_rank=0, node="node-2", address="10.0.0.2")


class World:
    """A state and what was wanted done so far."""

    def __init__(self, fence: Fence | None = None) -> None:
        self.state = State(node=NODE, incarnation="x-1", fence=fence or Fence())
        self.now = 0.0

    def take(self, event: ev.AnyEvent) -> list[do.AnyAction]:
        self.state, actions = step(self.state, event, self.now)
        return actions

    def want(self, desired: m.Desired) -> list[do.AnyAction]:
        return self.take(ev.Instructed(desired=desired))

    @property
    def seen(self) -> m.Observed:
        return observed(self.state, sequence=1, now=self.now)

    def answer_agent(self, **more: Any) -> list[do.AnyAction]:
        order = self.state.care.order
        assert order is not None
        values: dict[str, Any] = {"id": order.id, "job": order.job, "epoch": order.epoch}
        return self.take(ev.AgentReported(report=AgentReport(**values | {"looked": True} | more)))


def desired(generation: int, epoch: int, *, ranks: int = 0, **more: Any) -> m.Desired:
    seats = tuple(
        m.Seat(rank=rank, local_rank=rank, node=NODE, address="10.0.0.1") for rank in range(ranks)
    )
    meeting = m.Rendezvous(address="10.0.0.1", port=5) if ranks else None
    values: dict[str, Any] = {
        "node": NODE,
        "generation": generation,
        "term": 1,
        "epoch": epoch,
        "job": "job",
        "task": TASK,
        "seats": seats,
        "world_size": ranks,
        "places": 1,
        "rendezvous": meeting,
    }
    return m.Desired(**values | more)


def kinds(actions: list[do.AnyAction]) -> list[str]:
    return [type(action).__name__ for action in actions]


def running(epoch: int = 1, ranks: int = 2) -> World:
    world = World()
    world.want(desired(1, epoch, ranks=ranks))
    for rank in range(ranks):
        world.take(ev.RankStarted(job="job", epoch=epoch, rank=rank, pid=100 + rank))
    return world


def test_the_same_desired_state_again_asks_for_nothing() -> None:
    world = World()
    wanted = desired(1, 1, ranks=2)
    assert kinds(world.want(wanted)) == ["Remember", "Warm", "StartRanks", "OrderAgent"]
    assert world.want(wanted) == []


@pytest.mark.parametrize(
    ("late", "named"),
    [
        (desired(3, 4), "order: 4"),
        (desired(1, 5), "generation: 1"),
        (replace(desired(9, 9), term=0), "term: 0"),
        (replace(desired(3, 6), node="node-2"), "node: 'node-2'"),
        (replace(desired(3, 6, ranks=1), task=None), "seats: given without task"),
        (replace(desired(3, 6, ranks=1), world_size=0), "seats: given without world_size"),
        (replace(desired(3, 6, ranks=1), seats=(FOREIGN,)), "seats: given of node-2"),
        (replace(desired(3, 6), stop="gently"), "stop: 'gently'"),
    ],
    ids=["epoch", "generation", "term", "node", "task", "size", "seats", "stop"],
)
def test_what_is_too_old_or_makes_no_sense_is_refused_and_changes_nothing(
    late: m.Desired, named: str
) -> None:
    world = World()
    world.want(desired(2, 5, ranks=2))
    before = world.state
    (answer,) = world.want(late)
    assert isinstance(answer, do.Answer)
    assert named in answer.refused.why
    assert answer.refused.generation == late.generation
    assert world.state == before


def test_a_new_term_may_count_afresh() -> None:
    world = World()
    world.want(desired(9, 9))
    assert kinds(world.want(replace(desired(1, 1), term=2)))[0] == "Remember"


def test_nothing_new_is_started_before_what_ran_is_gone() -> None:
    world = running()
    asked = world.want(desired(2, 2, host_rendezvous=True))
    assert kinds(asked) == ["Remember", "Clear"]
    assert not world.seen.quiet
    assert world.seen.ranks == ()
    assert kinds(world.take(ev.Cleared())) == ["HostRendezvous", "OrderAgent"]


def test_a_rank_is_forked_once_an_epoch_and_its_end_is_told_in_order() -> None:
    world = running()
    ended = m.RankStatus(rank=1, state="exited", pid=101, signal=9)
    assert world.take(ev.RankEnded(job="job", epoch=1, status=ended)) == []
    assert [(r.rank, r.state, r.order) for r in world.seen.ranks] == [
        (0, "running", 0),
        (1, "exited", 1),
    ]


def test_what_an_older_epoch_says_late_is_not_taken_for_news() -> None:
    world = running()
    world.want(desired(2, 2))
    world.take(ev.Cleared())
    late = m.RankStatus(rank=0, state="exited", signal=9)
    world.take(ev.RankEnded(job="job", epoch=1, status=late))
    world.take(
        ev.RendezvousListening(
            job="job", epoch=1, rendezvous=m.Rendezvous(address="a", port=1), served=True
        )
    )
    assert world.seen.ranks == ()
    assert world.seen.rendezvous is None


def test_a_new_incarnation_reports_the_ranks_of_the_old_one_as_dead_and_forks_none() -> None:
    fence = Fence(term=1, generation=4, job="job", epoch=3, started=True)
    world = World(fence)
    assert "StartRanks" not in kinds(world.want(desired(4, 3, ranks=2)))
    assert [(r.state, r.signal) for r in world.seen.ranks] == [("exited", 9)] * 2
    assert world.seen.ranks[0].error is not None
    assert "StartRanks" in kinds(world.want(desired(5, 4, ranks=2))) + kinds(
        world.take(ev.Cleared())
    )


def test_quiet_waits_for_what_the_agent_holds_but_not_for_ever() -> None:
    world = World()
    world.want(desired(1, 1, host_rendezvous=True))
    assert not world.seen.quiet
    held = (m.Snapshot(rank=0, step=7, epoch=1),)
    world.answer_agent(snapshots=held)
    assert world.seen.quiet
    assert world.seen.snapshots == held
    world.want(desired(2, 2, host_rendezvous=True))
    world.take(ev.Cleared())
    assert not world.seen.quiet, "the answer was to an older order"
    world.now += QUIET_WAIT_S
    assert world.seen.quiet


def test_what_its_agent_says_of_deletions_is_told_while_it_is_of_the_order_that_stands() -> None:
    world = World()
    world.want(desired(1, 1, host_rendezvous=True))
    world.answer_agent(undeleted="store: cannot delete step-10")
    assert (world.seen.undeleted, world.seen.swept) == ("store: cannot delete step-10", False)
    world.answer_agent(swept=True)
    assert (world.seen.undeleted, world.seen.swept) == ("", True)
    world.want(desired(2, 2, host_rendezvous=True))
    world.take(ev.Cleared())
    assert (world.seen.undeleted, world.seen.swept) == ("", False)


AGENT_SAYS: dict[str, Any] = {
    "peer_port": 41_000,
    "snapshots": (m.Snapshot(rank=0, step=7, epoch=1),),
    "stored": (m.Stored(step=6, epoch=1),),
    "damaged": (m.Stored(step=5, epoch=1),),
    "persisted_step": 6,
    "skipped_saves": 1,
    "skipped_why": "the store is slow",
    "skipped_in_a_row": 2,
    "unlike": m.Unlike(step=6, since=5, tensor="w", ranks=(0, 1, 2), odd=1),
    "store_error": "no such folder",
    "saved_bytes": 3,
    "store_shared": False,
    "store_missing": "step-6 of n1",
    "undeleted": "store: cannot delete step-1",
    "swept": True,
}


def test_the_driver_is_told_each_word_of_the_agent_on_the_order_that_stands() -> None:
    world = World()
    world.want(desired(1, 1, host_rendezvous=True))
    world.answer_agent(**AGENT_SAYS)
    assert {name: getattr(world.seen, name) for name in AGENT_SAYS} == AGENT_SAYS
    words = {*AgentReport.__struct_fields__} & {*m.Observed.__struct_fields__}
    assert words - {"job", "epoch"} == AGENT_SAYS.keys(), "each that both have"


def test_what_the_store_holds_is_unknown_until_the_agent_has_looked_through_it() -> None:
    world = World()
    world.want(desired(1, 1, host_rendezvous=True))
    world.now += 10 * QUIET_WAIT_S
    assert (world.seen.quiet, world.seen.stored) == (True, ())
    assert world.seen.looking == "the checkpoint agent has not answered"
    assert world.seen.agent_silent == "it has not said what the store has"
    assert world.seen.store_error == "", "nobody knows anything against the store"
    found = (m.Stored(step=50, epoch=1),)
    world.answer_agent(stored=found, looked=False)
    assert (world.seen.stored, world.seen.looking) == (found, "step 50 found so far")
    assert world.seen.agent_silent == ""
    world.answer_agent(stored=found)
    assert (world.seen.stored, world.seen.looking) == (found, "")
    world.want(desired(2, 2, host_rendezvous=True))
    world.take(ev.Cleared())
    assert world.seen.stored == (), "the answer was to an older order"
    assert world.seen.looking
    world.take(ev.AgentAbsent(why="it died (signal 9)", final=True))
    assert "no checkpoint agent" in world.seen.looking


def test_only_the_node_of_rank_0_looks_the_store_up() -> None:
    world = World()
    world.want(desired(1, 1))
    assert world.seen.looking == ""


def test_a_step_that_was_written_for_an_older_order_is_not_told_for_the_new_one() -> None:
    world = World()
    world.want(desired(1, 1, ranks=1))
    world.answer_agent(persisted_step=50)
    assert world.seen.persisted_step == 50
    world.want(desired(2, 2, ranks=1))
    world.take(ev.Cleared())
    assert world.seen.persisted_step is None


def test_a_job_goes_on_without_an_agent_and_says_so() -> None:
    world = World()
    world.want(desired(1, 1))
    world.take(ev.AgentAbsent(why="it is not installed", final=True))
    assert world.seen.quiet
    assert world.seen.store_error == "no checkpoint agent: it is not installed"


def test_what_an_agent_said_does_not_outlive_the_last_one() -> None:
    world = World()
    world.want(desired(1, 1, host_rendezvous=True))
    world.answer_agent(snapshots=(m.Snapshot(rank=0, step=7, epoch=1),))
    world.take(ev.AgentAbsent(why="it died (signal 9)", final=False))
    assert world.seen.snapshots, "another comes at once"
    world.take(ev.AgentAbsent(why="it died (signal 9)", final=True))
    assert world.seen.snapshots == ()
    assert world.seen.store_error == "no checkpoint agent: it died (signal 9)"


def test_a_stop_by_ctrl_c_has_its_grace_and_is_told_as_such() -> None:
    world = running()
    (_, clear) = world.want(desired(2, 2, stop="interrupt"))
    assert clear == do.Clear(grace_s=7, interrupt=True)
    (_, hurry) = world.want(desired(3, 2))
    assert hurry == do.Clear(grace_s=0)


def test_grace_is_cut_short_when_the_driver_wants_a_kill() -> None:
    world = running()
    (_, clear) = world.want(desired(2, 2, stop="grace"))
    assert clear == do.Clear(grace_s=7)
    assert world.want(desired(2, 2, stop="grace")) == []
    (_, hurry) = world.want(desired(3, 2))
    assert hurry == do.Clear(grace_s=0)
    assert kinds(world.want(desired(4, 3))) == ["Remember"]


@pytest.mark.parametrize(
    ("wanted", "rest"),
    [
        pytest.param({}, True, id="the same program, in another attempt"),
        pytest.param({"stop": "grace"}, False, id="suspended"),
        pytest.param({"stop": "interrupt"}, False, id="stopped by Ctrl-C"),
        pytest.param({"task": replace(TASK, env={"LR": "1"})}, False, id="another version"),
        pytest.param({"job": "other"}, False, id="another job"),
        pytest.param(
            {"diagnostics": (m.DiagnosticOrder(id="d", test="compute"),)}, False, id="tested"
        ),
    ],
)
def test_ranks_may_rest_where_the_same_program_goes_on(wanted: dict[str, Any], rest: bool) -> None:
    (_, *_, clear) = running().want(desired(2, 2, **wanted))
    assert isinstance(clear, do.Clear)
    assert clear.rest is rest


@pytest.mark.parametrize(
    "then",
    [
        pytest.param({"job": None, "task": None}, id="the job is over"),
        pytest.param({"stop": "grace"}, id="suspended"),
        pytest.param({"task": replace(TASK, env={"LR": "1"})}, id="another version"),
        pytest.param({"diagnostics": (m.DiagnosticOrder(id="d", test="compute"),)}, id="tested"),
    ],
)
def test_who_rests_is_ended_once_its_program_does_not_go_on(then: dict[str, Any]) -> None:
    world = running()
    world.want(desired(2, 2))
    world.take(ev.Cleared(resting=True))
    assert "Clear" not in kinds(world.want(desired(3, 3)))
    (clear,) = [each for each in world.want(desired(4, 4, **then)) if isinstance(each, do.Clear)]
    assert not clear.rest
    assert not world.seen.quiet
    assert "Clear" not in kinds(world.take(ev.Cleared()))


def test_who_came_to_rest_though_it_was_not_wanted_any_more_is_ended_then() -> None:
    world = running()
    world.want(desired(2, 2))
    assert "Clear" not in kinds(world.want(desired(3, 3, stop="grace")))
    assert "Clear" in kinds(world.take(ev.Cleared(resting=True)))
    assert "Clear" not in kinds(world.take(ev.Cleared()))


def test_ranks_that_are_seated_end_the_rest() -> None:
    world = running()
    world.want(desired(2, 2))
    world.take(ev.Cleared(resting=True))
    assert "StartRanks" in kinds(world.want(desired(3, 2, ranks=1)))
    assert world.state.rests is None


def test_where_nobody_rests_nobody_is_ended_again() -> None:
    world = running()
    world.want(desired(2, 2))
    world.take(ev.Cleared())
    assert "Clear" not in kinds(world.want(desired(3, 3, stop="grace")))


def test_a_free_node_keeps_nothing_and_forgets_the_job() -> None:
    world = running()
    free = m.Desired(node=NODE, generation=2, term=1, epoch=1, forget_job="job")
    assert kinds(world.want(free)) == ["Remember", "Clear"]
    (order,) = world.take(ev.Cleared())
    assert isinstance(order, do.OrderAgent)
    assert order.order.forget_job == "job"
    assert world.seen.job is None


def test_an_executor_that_is_to_leave_is_free_once_nothing_is_wanted_and_nothing_left() -> None:
    world = World()
    assert free(world.state, world.now), "it was never told anything"
    world = running()
    assert not free(world.state, world.now)
    world.want(desired(2, 2, save=m.Stored(step=7, epoch=1)))
    world.take(ev.Cleared())
    assert not free(world.state, world.now), "it may have to save yet"
    order = world.state.care.order
    assert order is not None
    assert order.save == m.Stored(step=7, epoch=1)
    world.want(desired(3, 2, job=None, task=None, forget_job="job"))
    assert not free(world.state, world.now), "the agent writes what was due"
    world.answer_agent()
    assert free(world.state, world.now)


def test_a_store_that_dies_is_replaced_until_ranks_know_its_address() -> None:
    world = World()
    world.want(desired(1, 1, host_rendezvous=True))
    listening = ev.RendezvousListening(
        job="job", epoch=1, rendezvous=m.Rendezvous(address="a", port=1), served=True
    )
    world.take(listening)
    died = ev.RendezvousEnded(job="job", epoch=1, why="killed")
    assert kinds(world.take(died)) == ["HostRendezvous"]
    world.take(listening)
    world.want(desired(2, 1, host_rendezvous=True, ranks=1))
    assert world.take(died) == []
    assert world.seen.rendezvous is None


def test_diagnostics_run_one_at_a_time_and_results_go_with_their_orders() -> None:
    orders = tuple(
        m.DiagnosticOrder(id="d1", test=test, round=number)
        for test, number in (("compute", 0), ("allreduce", 0), ("allreduce", 1))
    )
    world = World()
    assert "RunDiagnostic" in kinds(world.want(desired(1, 1, diagnostics=orders)))
    for order in orders:
        result = m.DiagnosticResult(id="d1", test=order.test, node=NODE, round=order.round, ok=True)
        more = world.take(ev.DiagnosticEnded(result=result))
        assert kinds(more) == ([] if order is orders[-1] else ["RunDiagnostic"])
    assert len(world.seen.diagnostics) == 3
    world.want(desired(2, 1))
    assert world.seen.diagnostics == ()


def test_a_diagnostic_that_is_not_wanted_any_more_is_ended() -> None:
    world = World()
    world.want(desired(1, 1, diagnostics=(m.DiagnosticOrder(id="d1", test="compute"),)))
    assert "Clear" in kinds(world.want(desired(2, 1)))


def test_a_standby_tests_itself_and_drops_that_for_a_place() -> None:
    """It has no seat in this epoch, and one in the next."""
    tests = (m.DiagnosticOrder(id="standby.7", test="compute"),)
    world = World()
    world.want(desired(1, 1))
    world.answer_agent()
    assert "RunDiagnostic" in kinds(world.want(desired(2, 1, diagnostics=tests)))
    assert world.seen.quiet
    more = world.want(desired(3, 2))
    assert "Clear" in kinds(more)
    assert not world.seen.quiet
    world.take(ev.Cleared())
    world.answer_agent()
    assert world.seen.quiet
    assert world.seen.diagnostics == ()
    assert "StartRanks" in kinds(world.want(desired(4, 2, ranks=2)))


def test_the_launcher_is_warmed_for_a_standby_and_again_only_for_another_task() -> None:
    world = World()
    assert "Warm" in kinds(world.want(desired(1, 1)))
    assert "Warm" not in kinds(world.want(desired(2, 2)))
    other = replace(TASK, env={"A": "1"})
    assert "Warm" in kinds(world.want(desired(3, 3, task=other)))


# ---------------------------------------------------------------- any order of anything

_EVENTS = st.one_of(
    st.builds(
        lambda g, e, r, t, h, s: ev.Instructed(
            desired=replace(desired(g, e, ranks=r, host_rendezvous=h, stop=s), term=t)
        ),
        st.integers(1, 6),
        st.integers(1, 4),
        st.integers(0, 2),
        st.integers(1, 2),
        st.booleans(),
        st.sampled_from(["kill", "grace"]),
    ),
    st.just(ev.Cleared()),
    st.builds(
        lambda e, r: ev.RankStarted(job="job", epoch=e, rank=r, pid=9),
        st.integers(1, 4),
        st.integers(0, 1),
    ),
    st.builds(
        lambda e, r: ev.RankEnded(
            job="job", epoch=e, status=m.RankStatus(rank=r, state="exited", exit_code=1)
        ),
        st.integers(1, 4),
        st.integers(0, 1),
    ),
    st.builds(lambda e: ev.RendezvousEnded(job="job", epoch=e, why="died"), st.integers(1, 4)),
    st.just(ev.Ticked()),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_EVENTS, max_size=25))
def test_whatever_comes_no_two_epochs_run_and_no_epoch_runs_twice(
    history: list[ev.AnyEvent],
) -> None:
    world = World()
    started: set[tuple[int, int]] = set()
    clearing = False
    for event in history:
        if isinstance(event, ev.Cleared) and not clearing:
            continue  # only a Clear ends as Cleared
        fence = world.state.fence
        actions = world.take(event)
        clearing = world.state.clearing_s is not None
        now = world.state.fence
        assert (now.term, now.epoch) >= (fence.term, fence.epoch)
        for action in actions:
            if isinstance(action, do.StartRanks):
                key = (action.desired.term, action.desired.epoch)
                assert key not in started
                assert not clearing
                started.add(key)
        if isinstance(event, ev.Instructed):
            again = world.take(event)
            assert all(isinstance(action, do.Answer) for action in again)
    seen = world.seen
    assert not (seen.quiet and world.state.clearing_s is not None)


def test_a_store_that_has_to_wait_for_an_import_says_so_until_it_listens_or_that_is_over() -> None:
    world = World()
    world.want(desired(1, 1))
    world.take(ev.LauncherChanged(state="warming"))
    assert world.seen.preparing == "", "nobody waits"
    world.want(desired(2, 1, host_rendezvous=True))
    assert world.seen.preparing == "it imports what the ranks need"
    waits = world.state
    world.take(ev.LauncherChanged(state="none: an import of it stood still for 60 s"))
    assert world.seen.preparing == "its rendezvous imports torch", "as the launcher could not"
    cold = world.state
    for world.state in (waits, cold):
        meeting = m.Rendezvous(address="10.0.0.1", port=5)
        world.take(ev.RendezvousListening(job="job", epoch=1, rendezvous=meeting, served=True))
        assert world.seen.preparing == ""


def test_a_store_waits_for_room_on_the_disk_of_the_logs_and_says_what_to_free() -> None:
    world = World()
    (start,) = [
        each
        for each in world.want(desired(1, 1, host_rendezvous=True))
        if isinstance(each, do.HostRendezvous)
    ]
    assert start.logs == world.state.desired.task.log_root
    world.take(ev.LauncherChanged(state="warming"))
    full = "the disk of /logs is full. Free at least 32 MiB there"
    world.take(ev.RoomLacked(job="job", epoch=0, why="of an earlier epoch"))
    assert world.seen.preparing == "it imports what the ranks need"
    world.take(ev.RoomLacked(job="job", epoch=1, why=full))
    assert world.seen.preparing == full
    world.take(ev.RoomLacked(job="job", epoch=1, why=""))
    assert world.seen.preparing == "it imports what the ranks need"


def test_where_ranks_meet_is_looked_at_and_what_is_seen_is_told() -> None:
    world, meets = World(), "redis://h:6379/0"
    order = desired(1, 1, host_rendezvous=True)
    (start,) = [
        each
        for each in world.want(replace(order, task=replace(order.task, rendezvous=meets)))
        if isinstance(each, do.HostRendezvous)
    ]
    assert start.meets == meets
    assert world.seen.meeting is None
    world.take(ev.MeetingLooked(job="job", epoch=0, why="of an earlier epoch"))
    assert world.seen.meeting is None
    for why in ("it does not answer", ""):
        world.take(ev.MeetingLooked(job="job", epoch=1, why=why))
        assert world.seen.meeting == why


def test_ranks_that_ran_on_after_sigterm_are_told_with_the_order_that_ended_them() -> None:
    world = World()
    world.want(desired(1, 1, ranks=2))
    world.want(desired(2, 2, stop="grace"))
    world.take(ev.Cleared(killed=(1,)))
    assert world.seen.killed == (1,)
    world.want(desired(3, 2))
    assert world.seen.killed == (1,)
    world.want(desired(4, 3))
    assert world.seen.killed == ()


def test_an_agent_is_told_what_the_job_says_of_checkpoints_and_where_copies_go() -> None:
    task = structs.replace(
        TASK,
        retention=3,
        keep_every_steps=100,
        upload=m.UploadLimits(mb_per_s=5, cpus=0.5, idle=True),
        peer_interval_steps=10,
    )
    peer, world = m.Peer(address="10.0.0.2", port=41_000), World()
    world.want(desired(1, 1, ranks=2, task=task, peer=peer))
    order = world.state.care.order
    assert order is not None
    assert (order.retention, order.keep_every_steps, order.upload) == (3, 100, task.upload)
    assert (order.peer_interval_steps, order.peer) == (10, peer)
