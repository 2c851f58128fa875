"""A defect that is met where states are followed is one job's, told once, and no driver's end."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from driver_loops import PLAN, POLICY, submitted
from made_jobs import made_job
from msgspec.structs import replace

from holdfast.driver.adapters.sql.journal import SqlJournal
from holdfast.driver.core.events import Found, ProgressSeen
from holdfast.driver.core.state.model import Incident, State
from holdfast.driver.follow import feed
from holdfast.driver.follow.feed import Feed
from holdfast.driver.follow.guard import Guard
from holdfast.driver.loop import Loop
from holdfast.driver.ports import TemporaryError
from holdfast.driver.watch import Expectation, Watch, jobs
from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.model import Findings, Recalled
from holdfast.kit.clock import SystemClock
from holdfast.protocol.faults import Blame, Finding, Kind, Weight
from holdfast.protocol.messages import Heartbeat, Observed, RankProgress, Seat


def followed(loop: Loop) -> Feed:
    guard = Guard(loop.post, costs="nobody sees whether it stands still")
    watch = Watch(guard=guard.around)
    return Feed(watch, guard=guard, daemons=None, emit=loop.post, now=loop.now)  # type: ignore[arg-type]


def broken_for(job: str, real: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
    def broken(*given: Any) -> Any:
        if name(*given) == job:
            raise KeyError("a defect of ours")
        return real(*given)

    return broken


async def test_what_one_job_makes_of_the_state_ends_no_driver_at_any_start(
    open_journal: Callable[[str], SqlJournal], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = feed.incidents.standing
    for term in (1, 2, 3):
        loop = Loop(open_journal("journal"), clock=SystemClock(), policy=POLICY)
        async with asyncio.TaskGroup() as group:
            await loop.start(perform=lambda effect: None, follow=followed(loop).follow)
            task = group.create_task(loop.run())
            assert loop.state.term == term
            if term == 1:
                await loop.request(submitted("sick"))
                await loop.request(submitted("sound"))
                broken = broken_for("sick", real, lambda known, job: job.name)
                monkeypatch.setattr(feed.incidents, "standing", broken)
            else:
                await loop.request(submitted(f"then-{term}"))  # behind what was told
                await loop.request(submitted(f"next-{term}"))
                assert not any(job.parked for job in loop.state.jobs.values())
                (met,) = loop.state.incidents.values()
                assert (met.kind, met.jobs, met.open) == (Kind.DEFECT, ("sick",), False)
                assert met.summary.startswith("defect: KeyError('a defect of ours'): sick goes on")
            task.cancel()


def test_a_job_of_which_the_detectors_meet_a_defect_leaves_the_others_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[Any] = []
    guard = Guard(told.append, costs="nobody sees whether it stands still")
    watch = Watch(guard=guard.around)
    for name in ("sick", "sound"):
        seat = Seat(rank=0, local_rank=0, node=f"of-{name}", address="::")
        watch.expect(Expectation(job=name, epoch=1, seats=(seat,)))
    looked: list[str] = []

    def name_of(job: Any, *_: Any) -> str:
        looked.append(job.expected.job)
        return looked[-1]

    monkeypatch.setattr(jobs, "stepped", broken_for("sick", jobs.stepped, name_of))
    for now in (1.0, 2.0, 3.0):
        watch.tick(now)
    assert looked == ["sick", "sound"] * 3
    (found,) = told
    assert isinstance(found, Found)
    assert (found.finding.kind, found.finding.weight) == (Kind.DEFECT, Weight.REPORT)
    assert found.finding.job == "sick"
    assert "test_driver_guard.py" in found.finding.evidence[0].text


class Broken(Detector):
    """Meets a defect in all that it is asked."""

    def heard(self, beat: Heartbeat, context: Context) -> Findings:
        raise KeyError("a defect of ours")

    def heard_of(self, beat: Heartbeat, job: JobSeen, context: Context) -> Findings:
        raise KeyError("a defect of ours")

    def reported(self, seen: Observed, context: Context) -> Findings:
        raise KeyError("a defect of ours")

    def looked_at(self, job: JobSeen, context: Context) -> Findings:
        raise KeyError("a defect of ours")


class Sound(Detector):
    """Finds something in each."""

    FOUND = Finding(kind=Kind.COUNTERS, weight=Weight.REPORT, summary="it is so")

    def heard(self, beat: Heartbeat, context: Context) -> Findings:
        return (self.FOUND,)

    def heard_of(self, beat: Heartbeat, job: JobSeen, context: Context) -> Findings:
        return (self.FOUND,)

    def reported(self, seen: Observed, context: Context) -> Findings:
        return (self.FOUND,)

    def looked_at(self, job: JobSeen, context: Context) -> Findings:
        return (self.FOUND,)


def test_a_detector_that_meets_a_defect_stops_no_other() -> None:
    told: list[Any] = []
    guard = Guard(told.append, costs="nobody sees whether it stands still")
    watch = Watch(guard=guard.around, detectors=[Broken(), Sound(), Broken(), Sound()])
    seat = Seat(rank=0, local_rank=0, node="n", address="::")
    watch.expect(Expectation(job="job", epoch=1, seats=(seat,)))
    rank = RankProgress(rank=0, job="job", epoch=1, step=3)
    beat = Heartbeat(node="n", incarnation="a", sequence=1, uptime_s=1.0, ranks=(rank,))
    seen = Observed(node="n", incarnation="a", sequence=1, generation=1, epoch=1, job="job")
    assert watch.heard(beat, 1.0) == [Found(finding=Sound.FOUND)] * 4
    assert watch.observed(seen) == [Found(finding=Sound.FOUND)] * 2
    assert watch.tick(2.0)[-2:] == [Found(finding=Sound.FOUND)] * 2
    assert watch.completed_step("job") == 3, "what it said of its ranks was taken in"
    assert len({each.finding.evidence[0].text for each in told}) == len(told) == 4, "each once"


def test_steps_are_told_once_though_a_defect_is_met_after_them() -> None:
    watch = Watch(guard=Guard(lambda event: None, costs="").around, detectors=[Broken()])
    seat = Seat(rank=0, local_rank=0, node="n", address="::")
    watch.expect(Expectation(job="sick", epoch=1, seats=(seat,)))
    rank = RankProgress(rank=0, job="sick", epoch=1, step=3)
    beat = Heartbeat(node="n", incarnation="a", sequence=1, uptime_s=1.0, ranks=(rank,))
    watch.heard(beat, 1.0)
    told = [event for now in (1.0, 2.0, 3.0) for event in watch.tick(now)]
    assert [type(event) for event in told] == [ProgressSeen]


def test_a_job_that_cannot_be_expected_leaves_heartbeats_of_others_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[Any] = []
    watch = Watch(guard=Guard(told.append, costs="").around)
    broken = broken_for("sick", jobs.expect, lambda before, expected, now: expected.job)
    monkeypatch.setattr(jobs, "expect", broken)
    for name in ("sick", "sound"):
        seat = Seat(rank=0, local_rank=0, node=f"of-{name}", address="::")
        watch.expect(Expectation(job=name, epoch=1, seats=(seat,)))
    for at, name in enumerate(("sick", "sound", "sick")):
        beat = Heartbeat(node=f"of-{name}", incarnation="a", sequence=at, uptime_s=1.0)
        watch.heard(beat, 1.0 + at)
        watch.tick(1.5 + at)
    assert [each.finding.job for each in told] == ["sick"]
    assert watch.progress("sound") is not None
    assert watch.progress("sick") is None


def test_it_is_told_anew_of_a_later_job_and_answers_of_the_outside_pass() -> None:
    told: list[Any] = []
    guard = Guard(told.append, costs="")

    def meets() -> None:
        with guard.around("job"):
            raise ValueError("a defect of ours")

    meets()
    meets()
    guard.keep({"job", "other"})
    meets()
    assert len(told) == 1
    guard.keep({"other"})
    meets()
    assert len(told) == 2
    with pytest.raises(TemporaryError), guard.around("job"):
        raise TemporaryError("try again")


def test_detectors_begin_anew_with_a_job_that_was_parked_and_came_back() -> None:
    told: list[str] = []

    class Told(Watch):
        def forget(self, job: str) -> None:
            told.append("forgotten")

        def expect(self, expected: Expectation) -> None:
            told.append("expected")

        def recall(self, job: str, known: Recalled) -> None:
            told.append("recalled")

    guard = Guard(lambda event: None, costs="")
    following = Feed(Told(), guard=guard, daemons=None, emit=lambda event: None, now=lambda: 0.0)  # type: ignore[arg-type]
    seat = Seat(rank=0, local_rank=0, node="n0", address="::")
    job = replace(made_job("job", PLAN), seats=(seat,), epoch=1)
    following.follow(State())
    reported = Incident(
        id=1,
        opened=job.number,
        kind=Kind.STORE_NOT_SHARED,
        blame=Blame.USER,
        found_s=0.0,
        summary="two nodes see two stores",
        jobs=("job",),
    )
    for parked in ("", "a defect", "a defect", "", ""):
        jobs = {"job": replace(job, parked=parked)}
        following.follow(State(jobs=jobs, incidents={1: reported}))
    assert told == ["expected", "forgotten", "recalled", "expected"]
