"""A defect in one job's or node's affairs, planted: all others go on, and nothing spins."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.driver.batch.deadlines import next_deadline
from holdfast.driver.core import decide
from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Instruct
from holdfast.driver.core.handlers import stalls
from holdfast.driver.core.handlers.parking import FIRST_S, LONGEST_S, longer
from holdfast.driver.core.state import node as n
from holdfast.driver.core.state.model import Phase, Timer
from holdfast.driver.journal.draft import Draft
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import RankStatus, Rendezvous

Make = Callable[..., Any]
PLACES = (
    "handlers.ticks._of_job",
    "decide.advance",
    "job.allocation._fill_places",
    "job.allocation._start",
)
"""Where a turn goes from job to job."""


def planted(monkeypatch: pytest.MonkeyPatch, place: str, sick: str) -> None:
    target = f"holdfast.driver.core.{place}"
    module, _, name = target.rpartition(".")
    import importlib

    real = getattr(importlib.import_module(module), name)

    def broken(turn: Any, job: str, *rest: Any) -> Any:
        if job == sick:
            raise KeyError("a defect of ours")
        return real(turn, job, *rest)

    monkeypatch.setattr(target, broken)


class Drafted:
    """A life whose events are decided as the loop decides them."""

    def __init__(self, life: Any) -> None:
        self.life = life
        self.notes: list[str] = []
        life.do = self.do

    def do(self, event: e.AnyEvent, *, after_s: float = 0.01) -> Any:
        life = self.life
        life.now += after_s
        draft = Draft(state=life.state, now=life.now, at="", policy=life.policy)
        draft.add(event)
        life.state = draft.state
        for entry in draft.entries:
            life.effects += entry.effects
            self.notes.append(entry.why)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("sick", ["a", "b", "c"])
def test_all_but_the_one_with_the_defect_finish(
    life: Any, monkeypatch: pytest.MonkeyPatch, place: str, sick: str
) -> None:
    drafted = Drafted(life)
    for job in ("a", "b", "c"):
        life.submit(job, nodes=1, ranks_per_node=1, deadline_s=1_000.0)
    planted(monkeypatch, place, sick)
    for name in ("n0", "n1", "n2"):
        life.node(name)
    for job in ("a", "b", "c"):
        if job != sick and life.state.jobs[job].places:
            life.answer(name=job)
            life.ends_well(job)
    life.do(e.Ticked(), after_s=2_000.0)
    jobs = life.state.jobs
    assert [name for name, job in jobs.items() if not job.finished] == [sick]
    assert "a defect of ours" in jobs[sick].parked
    assert (next_deadline(life.state) or 0.0) > life.now
    told = [note for note in drafted.notes if "is parked" in note]
    assert told[-1].endswith("It is looked at again in 60 s")
    assert len(told) == (1 if place == "handlers.ticks._of_job" else 2), "and when it came back"


def test_what_the_tick_was_for_is_done_for_the_others(
    life: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Drafted(life)
    for job in ("a", "b"):
        life.submit(job, nodes=1, ranks_per_node=1, deadline_s=100.0)
    planted(monkeypatch, "handlers.ticks._of_job", "a")
    life.do(e.Ticked(), after_s=100.0)
    assert life.state.jobs["a"].parked
    assert life.state.jobs["b"].finished, "its deadline has passed"


def test_a_standstill_of_the_driver_is_taken_out_for_the_others(
    life: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Drafted(life)
    for job in ("a", "b"):
        life.submit(job, nodes=1, ranks_per_node=1)
    for name in ("n0", "n1"):
        life.node(name)
    before = dict(life.state.jobs["b"].timers)
    real = stalls.Later.job

    def broken(later: Any, job: Any) -> None:
        if job.name == "a":
            raise KeyError("a defect of ours")
        real(later, job)

    monkeypatch.setattr(stalls.Later, "job", broken)
    life.do(e.Stalled(stood_s=20.0))
    assert life.state.jobs["a"].parked
    after = life.state.jobs["b"].timers
    assert before
    assert {timer: round(after[timer] - at) for timer, at in before.items()} == dict.fromkeys(
        before, 20
    )


def test_a_node_with_a_defect_is_put_off(life: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from msgspec.structs import replace

    drafted = Drafted(life)
    for name in ("n0", "n1"):
        life.node(name)
    nodes = {name: replace(node, retry_s=life.now) for name, node in life.state.nodes.items()}
    life.state = replace(life.state, nodes=nodes)

    def broken(node: Any) -> Any:
        if node.name == "n0":
            raise KeyError("a defect of ours")
        return []

    monkeypatch.setattr("holdfast.driver.core.handlers.ticks.calls_for", broken)
    life.do(e.Ticked())
    assert life.state.nodes["n1"].retry_s is None
    assert (life.state.nodes["n0"].retry_s or 0.0) > life.now + 30.0
    assert any("n0 is looked at again in 60 s: defect: KeyError" in note for note in drafted.notes)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(list(Timer)), st.floats(0.1, 50.0))
def test_whatever_timer_meets_a_defect_is_due_no_more(timer: Timer, after_s: float) -> None:
    from msgspec.structs import replace
    from tests.core.conftest import Life

    from holdfast.driver.core.handlers import ticks

    def broken(turn: Any, job: Any) -> None:
        raise KeyError("a defect of ours")

    life = Life()
    drafted = Drafted(life)
    life.submit("a", nodes=1, ranks_per_node=1)
    jobs = {name: replace(job, timers={timer: life.now}) for name, job in life.state.jobs.items()}
    life.state = replace(life.state, jobs=jobs)
    real = ticks.HANDLERS[timer]
    ticks.HANDLERS[timer] = broken
    try:
        life.do(e.Ticked(), after_s=after_s)  # type: ignore[no-untyped-call, unused-ignore]
    finally:
        ticks.HANDLERS[timer] = real
    assert life.state.jobs["a"].parked
    assert next_deadline(life.state) == life.now + FIRST_S
    assert len(drafted.notes) == 2, "it is submitted, and parked"


# ---------------------------------------------------------------- whatever the event


def finding(kind: Kind, **about: Any) -> e.Found:
    weight = Weight.CONCLUSIVE if kind is Kind.KERNEL_FAULT else Weight.RESTART
    return e.Found(finding=Finding(kind=kind, weight=weight, summary=kind.value, **about))


def around(life: Any) -> dict[str, e.AnyEvent]:
    """An event of each kind that cluster, executors and detectors tell, of job a on n0."""
    job, node = life.state.jobs["a"], life.state.nodes["n0"]
    of: dict[str, Any] = {"job": "a", "node": "n0"}
    now: dict[str, Any] = {**of, "epoch": job.epoch}
    told = {"node": "n0", "incarnation": node.incarnation}
    again = {"incarnation": "n0-second", "address": node.address}
    bad = RankStatus(rank=0, state="exited", exit_code=1, order=1)
    found = [
        finding(Kind.KERNEL_FAULT, node="n0"),
        finding(Kind.HANG, job="a", epoch=job.epoch),
        finding(Kind.COLLECTIVE_MISMATCH, job="a", epoch=job.epoch),
        finding(Kind.LINK_DOWN, job="a", node="n0", epoch=job.epoch),
    ]
    events: list[e.AnyEvent] = [
        e.NodeAppeared(node="n0", closed="cordoned", notice="drained", machine="other"),
        e.NodeVanished(node="n0"),
        e.NodeFits(**of),
        e.ExecutorEnded(**of, why="deleted"),
        e.ExecutorEnding(**of, why="drained", within_s=60.0),
        e.ExecutorStarved(**of),
        e.ExecutorLingers(**of, why="its node is away", stray=True),
        e.ExecutorConnected(node="n0", **again),
        e.ExecutorDisconnected(**told),
        e.NodeQuiet(**now),
        e.CheckpointStored(**now, step=10),
        e.RendezvousReady(**now, rendezvous=Rendezvous(address="10.0.0.9", port=1)),
        e.RendezvousLost(**now),
        e.RanksRunning(**now),
        e.RanksExited(**now, exits=(bad,)),
        e.DesiredRefused(node="n0", generation=node.told.generation, why="no"),
        e.DiagnosticEnded(node="n0", id="1", results=()),
        e.StepsRepeated(job="a", epoch=job.epoch, since=0, before=1),
        e.RanksLeft(job="a", reached=e.Reached(step=1)),
        e.FasterSeen(job="a", epoch=job.epoch, best_step_s=0.1),
        e.SaveProgressed(job="a", epoch=job.epoch, taken_bytes=1),
        e.ProgressSeen(job="a", epoch=job.epoch, step=2),
        e.NodeAllocated(**of),
        e.AllocationFailed(**of, why="no room"),
        e.NodeReleased(node="n0"),
        e.NodeDistrusted(node="n0"),
        e.NodeTrusted(node="n0"),
        e.ClusterCallFailed(call="release", node="n0", why="no answer"),
        e.StacksTaken(job="a", incident=1, stacks={}),
        e.StacksFailed(job="a", incident=1, why="no answer"),
    ]
    return {
        **{f"Found-{each.finding.kind}": each for each in found},
        **{type(each).__name__: each for each in events},
    }


def three_train(life: Any) -> Drafted:
    """a on n0, b on n1, c on n2; n3 is free."""
    drafted = Drafted(life)
    for name in ("n0", "n1", "n2", "n3"):
        life.node(name)
    for job in ("a", "b", "c"):
        life.submit(job, nodes=1, ranks_per_node=1)
        life.answer(name=job)
    assert life.state.jobs["a"].places == ("n0",)
    assert all(job.phase is Phase.RUNNING for job in life.state.jobs.values())
    return drafted


def planted_in_handler(monkeypatch: pytest.MonkeyPatch, kind: type[e.Event], when: str) -> None:
    """Once the event is handled, or before, until job a is parked; `always`: whether it is parked
    or not."""
    real = decide.HANDLERS[kind]

    def broken(turn: Any, event: Any) -> None:
        hits = when == "always" or not turn.jobs["a"].parked
        if when == "after":
            real(turn, event)
        if hits:
            raise KeyError("a defect of ours")
        if when != "after":
            real(turn, event)

    monkeypatch.setitem(decide.HANDLERS, kind, broken)


NAMES = (
    *(f"Found-{kind}" for kind in ("kernel-fault", "hang", "collective-mismatch")),
    "Found-link-down",
    *(
        kind.__name__
        for kind in decide.HANDLERS
        if not kind.__name__.endswith(("Requested", "Submitted", "FactTold"))
        and kind not in (e.Found, e.Ticked, e.Stalled, e.DriverStarted)
    ),
)
"""Of people's requests, which are answered, and of what concerns all there are other tests."""


@pytest.mark.parametrize("when", ["before", "after", "always"])
@pytest.mark.parametrize("name", NAMES)
def test_whatever_happened_the_job_that_it_concerns_is_parked(
    life: Any, monkeypatch: pytest.MonkeyPatch, name: str, when: str
) -> None:
    drafted = three_train(life)
    event = around(life)[name]
    before = life.state.nodes["n0"]
    with monkeypatch.context() as planting:
        planted_in_handler(planting, type(event), when)
        life.do(event)
    assert "a defect of ours" in life.state.jobs["a"].parked
    assert life.state.jobs["a"].backoff.wait_s == FIRST_S
    assert not [note for note in drafted.notes if "refused" in note]
    assert not life.state.jobs["b"].parked
    assert not life.state.jobs["c"].parked
    after = life.state.nodes["n0"]
    assert isinstance(after.presence, n.Gone) == (name == "NodeVanished")
    assert isinstance(after.link, n.Broken) == (name == "ExecutorDisconnected")
    assert (after.incarnation != before.incarnation) == (name == "ExecutorConnected")
    assert (n.Source.CORDON in after.against) == (name == "NodeAppeared")
    assert bool(life.state.jobs["a"].points) == (name == "CheckpointStored")
    for job in ("b", "c"):
        life.ends_well(job)
        assert life.state.jobs[job].phase is Phase.SUCCEEDED


@pytest.mark.parametrize("name", NAMES)
def test_what_came_while_it_was_parked_ends_no_job_s_recovery(
    life: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It comes back, is looked at as it is then, and trains to its end."""
    three_train(life)
    event = around(life)[name]
    with monkeypatch.context() as planting:
        planted_in_handler(planting, type(event), "before")
        life.do(event)
    life.wait(until_s=life.now + FIRST_S + 1.0)
    assert not life.state.jobs["a"].parked
    if not life.state.nodes["n0"].connected:
        life.connect("n0", "n0-first")
    for _ in range(3):
        life.answer(name="a")
    assert life.state.jobs["a"].phase in (Phase.RUNNING, Phase.SUCCEEDED), life.whys
    life.ends_well("a")
    assert life.state.jobs["a"].phase is Phase.SUCCEEDED


@pytest.mark.parametrize("event", ["Found-kernel-fault", "NodeVanished"])
def test_a_defect_in_the_recovery_loses_no_fact_of_the_node(
    life: Any, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    drafted = three_train(life)
    if event == "NodeVanished":
        life.silence("n0")
    planted(monkeypatch, "recovery.next_step.recover", "a")
    life.do(around(life)[event])
    assert "a defect of ours" in life.state.jobs["a"].parked
    assert not [note for note in drafted.notes if "refused" in note]
    node = life.state.nodes["n0"]
    assert isinstance(node.presence, n.Gone) == (event == "NodeVanished")
    assert node.quarantined == (event != "NodeVanished")
    monkeypatch.undo()
    life.wait(until_s=life.now + FIRST_S + 1.0)
    assert life.state.jobs["a"].places == ("n3",)


def test_a_node_of_no_job_is_noted_as_it_is_and_the_others_go_on(
    life: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafted = Drafted(life)
    life.submit("b", nodes=1, ranks_per_node=1)

    def broken(turn: Any, event: Any) -> None:
        raise KeyError("a defect of ours")

    monkeypatch.setitem(decide.HANDLERS, e.NodeAppeared, broken)
    life.node("n0")
    assert life.state.nodes["n0"].present
    assert life.state.jobs["b"].places == ("n0",)
    assert any("nothing else follows: defect: KeyError" in note for note in drafted.notes)


@pytest.mark.parametrize("name", ["NodeVanished", "ExecutorConnected", "CheckpointStored"])
def test_where_nobody_can_be_parked_the_fact_is_noted_all_the_same(
    life: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What is between two jobs raises whoever is parked."""
    drafted = three_train(life)
    event = around(life)[name]

    def broken(turn: Any) -> None:
        raise KeyError("a defect of ours")

    monkeypatch.setattr("holdfast.driver.core.decide.schedule", broken)
    monkeypatch.setattr("holdfast.driver.core.decide._concerned", broken)
    life.do(event)
    node, job = life.state.nodes["n0"], life.state.jobs["a"]
    assert isinstance(node.presence, n.Gone) == (name == "NodeVanished")
    assert (node.incarnation == "n0-second") == (name == "ExecutorConnected")
    assert bool(job.points) == (name == "CheckpointStored")
    assert not [note for note in drafted.notes if "refused" in note]


# ---------------------------------------------------------------- back-off


def test_who_meets_a_defect_again_and_again_waits_twice_as_long_up_to_an_hour() -> None:
    now, known = 0.0, longer(None, 0.0)
    waits = [known.wait_s]
    while waits[-1] < LONGEST_S:
        now = known.until_s
        known = longer(known, now)
        waits.append(known.wait_s)
    assert waits == [60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0]
    assert longer(known, known.until_s).wait_s == LONGEST_S
    assert longer(known, known.until_s + LONGEST_S - 1).wait_s == LONGEST_S
    assert longer(known, known.until_s + LONGEST_S).wait_s == FIRST_S, "it went well for as long"


def parked(training: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A job that trains, and met a defect; it is mended meanwhile."""
    life = training()
    Drafted(life)
    planted(monkeypatch, "decide.advance", "job")
    life.do(e.NodeAppeared(node="n0", closed="kubectl cordon"))
    assert life.job.parked
    monkeypatch.undo()
    return life


def test_a_job_comes_back_by_itself_and_its_nodes_are_told_anew_to_say_what_is(
    training: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = parked(training, monkeypatch)
    life.dies(1, signal=9)
    assert life.phase is Phase.RUNNING, "nobody listens"
    life.effects.clear()
    life.wait(until_s=life.now + FIRST_S + 1.0)
    assert not life.job.parked
    assert {order.desired.node for order in life.ordered(Instruct)} == {"n0", "n1"}
    life.dies(1, signal=9)  # as its executor says once more
    life.wait(until_s=life.now + 1.0)
    assert life.phase is Phase.SUSPENDING
    assert life.job.backoff is not None


def test_a_node_that_was_lost_meanwhile_is_found_when_its_job_comes_back(
    training: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = parked(training, monkeypatch)
    life.lose("n1")
    assert life.job.places == ("n0", "n1")
    life.wait(until_s=life.now + FIRST_S + 1.0)
    assert life.incident.summary == "n1 is lost"
    assert "n1" not in life.job.places


def test_what_was_waited_for_has_so_much_longer(
    training: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = training()
    Drafted(life)
    life.dies(1, signal=9)
    life.wait(until_s=life.now + 1.0)
    before = life.job.timers[Timer.QUIET]
    planted(monkeypatch, "decide.advance", "job")
    life.do(e.NodeAppeared(node="n0", closed="kubectl cordon"))
    monkeypatch.undo()
    parked_s = life.now
    life.wait(until_s=life.now + FIRST_S)
    assert not life.job.parked
    assert life.job.timers[Timer.QUIET] == pytest.approx(before + life.now - parked_s)
    assert life.evicted == [], "nobody is taken for one whose ranks do not end"


def test_a_parked_job_keeps_nobody_busy_for_a_node_that_is_silent(
    training: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = parked(training, monkeypatch)
    life.silence("n1")
    life.wait(until_s=life.now + FIRST_S - 1.0)
    assert life.job.parked
    assert (next_deadline(life.state) or 0.0) > life.now


def test_a_node_waits_longer_each_time(life: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from msgspec.structs import replace

    Drafted(life)
    life.node("n0")
    nodes = {"n0": replace(life.state.nodes["n0"], retry_s=life.now)}
    life.state = replace(life.state, nodes=nodes)

    def broken(node: Any) -> Any:
        raise KeyError("a defect of ours")

    monkeypatch.setattr("holdfast.driver.core.handlers.ticks.calls_for", broken)
    waits = []
    for _ in range(3):
        life.do(e.Ticked(), after_s=0.0)
        waits.append(life.state.nodes["n0"].backoff.wait_s)
        life.now = life.state.nodes["n0"].retry_s
    assert waits == [60.0, 120.0, 240.0]


def test_each_who_is_due_has_an_entry_of_its_own(life: Any) -> None:
    drafted = Drafted(life)
    for job in ("a", "b"):
        life.submit(job, nodes=1, ranks_per_node=1, deadline_s=100.0)
    drafted.notes.clear()
    life.do(e.Ticked(), after_s=100.0)
    assert len(drafted.notes) == 2
    assert all(f"{job} is given up" in note for job, note in zip("ab", drafted.notes, strict=True))
