"""What people are told: refusals, stories, the page of a job's life; and what parking means."""

from functools import partial
from pathlib import Path

import pytest

from holdfast.driver.adapters.rest.views import incident_view
from holdfast.driver.core import events as e
from holdfast.driver.core.events import Plan
from holdfast.driver.core.handlers.parking import leave_alone
from holdfast.driver.core.state.edges import TRANSITIONS, IllegalTransition, check_job
from holdfast.driver.core.state.model import FINISHED, Phase, Timer
from holdfast.driver.core.turn import Subject
from holdfast.driver.formats.encode import decode, encode
from holdfast.driver.people.admission import refuse
from holdfast.driver.people.story import lines_of, timeline
from holdfast.driver.ports import Entry
from holdfast.lab import lifecycle
from holdfast.protocol.messages import Task

PAGE = Path(__file__).parents[2] / "docs" / "lifecycle.md"

PLAN = Plan(task=Task(command=("x",), workdir="."), nodes=1, ranks_per_node=1)

REFUSALS = {
    "a name that is taken": (
        e.JobSubmitted(job="job", plan=PLAN),
        "duplicate-job",
    ),
    "an unknown job": (e.StopRequested(job="nope"), "unknown-job"),
    "a resume of what runs": (e.ResumeRequested(job="job"), "not-suspended"),
    "an unknown node": (e.NodeEvictRequested(node="n77", reason="x"), "unknown-node"),
    "a restore of a usable node": (e.NodeRestoreRequested(node="n0", reason="x"), "usable-node"),
}


def test_what_follows_from_a_askedis_told_once(training) -> None:
    life = training()
    why = life.do(e.NodeEvictRequested(node="n0", reason="loud")).why.split("; ")
    assert why[0].startswith("a person wants n0 out: loud")
    assert any("no node is free" in reason for reason in why)
    assert len(why) == len(set(why))


@pytest.mark.parametrize(("event", "code"), REFUSALS.values(), ids=REFUSALS.keys())
def test_it_refuses(training, event, code) -> None:
    life = training()
    refusal = refuse(life.state, event)
    assert refusal is not None
    assert refusal.code == code
    name = getattr(event, "job", None) or event.node
    assert name in str(refusal)


def test_it_refuses_to_end_a_job_twice_or_evict_a_node_twice(training) -> None:
    life = training()
    life.lose("n1")
    life.do(e.DeleteRequested(job="job"))
    assert refuse(life.state, e.SuspendRequested(job="job")).code == "ending-job"
    evict = e.NodeEvictRequested(node="n1", reason="to look at")
    assert refuse(life.state, evict) is None, "a person may keep out what a machine evicted"
    life.do(evict)
    assert refuse(life.state, evict).code == "quarantined-node"
    life.answer()


def test_it_refuses_to_stop_what_is_finished_but_not_to_delete_it(training) -> None:
    life = training()
    life.ends_well()
    assert refuse(life.state, e.StopRequested(job="job")).code == "finished-job"
    assert refuse(life.state, e.DeleteRequested(job="job")) is None


def test_it_admits_what_can_be_done(training) -> None:
    life = training()
    assert refuse(life.state, e.SuspendRequested(job="job")) is None
    assert refuse(life.state, e.NodeEvictRequested(node="n0", reason="x")) is None
    assert refuse(life.state, e.Ticked()) is None


def test_the_page_of_a_jobs_life_is_fresh() -> None:
    made = f"python -m {lifecycle.__name__} > {PAGE.name}"
    assert PAGE.read_text() == lifecycle.page(), made


def test_every_way_out_of_a_phase_is_explained_and_a_finished_job_has_none() -> None:
    assert all(text for text in TRANSITIONS.values())
    assert not [start for start, _ in TRANSITIONS if start in FINISHED]
    for phase in set(Phase) - FINISHED:
        assert [end for start, end in TRANSITIONS if start is phase]


def test_an_illegal_transition_tells_the_story(training) -> None:
    life = training()
    life.ends_well()
    with pytest.raises(IllegalTransition, match=r"(?s)Succeeded -> Running.*because of a test"):
        check_job(life.job, Phase.RUNNING, "because of a test")


def test_a_parked_job_is_left_alone_until_a_person_stops_it(training) -> None:
    life = training()
    life.state = leave_alone(
        life.state, Subject(job="job"), "a defect", life.now, life.policy
    ).state
    epoch = life.job.epoch
    life.dies(1, signal=9)
    life.lose("n1")
    assert life.phase is Phase.RUNNING
    assert life.job.epoch == epoch
    assert life.job.parked == "a defect"
    life.do(e.StopRequested(job="job"))
    assert life.phase is Phase.STOPPED


def test_the_state_survives_its_encoding(training) -> None:
    life = training(nodes=3, standbys=1)
    life.dies(1, exception="ValueError")
    life.lose("n2")
    assert decode(encode(life.state)) == life.state


def _entries(life, steps) -> list[Entry]:
    """Journal entries of what `steps` does."""
    entries: list[Entry] = []
    do = life.do

    def noted(event, *, after_s=0.01):
        decision = do(event, after_s=after_s)
        if not decision.idle:
            entries.append(
                Entry(
                    sequence=decision.state.sequence, term=1, now=life.now, at="14:02:03", policy=1,
                    event=event, effects=decision.effects, why=decision.why, jobs=decision.jobs,
                    nodes=decision.nodes, incident=decision.incident,
                )
            )  # fmt: skip
        return decision

    life.do = noted
    steps()
    return entries


def test_the_story_of_a_crash_names_what_was_seen_and_what_was_decided(training) -> None:
    life = training()
    entries = _entries(
        life, lambda: (life.dies(3, exception="ValueError"), life.answer(), life.progress(2))
    )
    lines = lines_of(entries)
    texts = [line.text for line in lines]
    assert texts[0] == "rank 3 on n1 raised ValueError"
    assert lines[0].seen
    assert "restart the ranks on the same nodes" in texts
    assert not [text for text in texts if "quiet" in text and "starts" not in text]
    assert texts[-1] == "job completed step 2, the furthest so far"
    assert lines[-1].incident == life.incident.id


def test_entries_belong_to_the_stories_of_their_nodes_and_jobs(training) -> None:
    life = training()
    entries = _entries(life, lambda: life.silence("n1"))
    assert entries[0].nodes == ("n1",)
    assert entries[0].jobs == ("job",)


def test_the_times_of_an_incident_add_up(training) -> None:
    life = training(standbys=1)
    life.dies(3, signal=9)
    life.answer()
    life.progress(2)
    incident = life.incident
    spans = timeline(incident)
    assert list(spans) == ["decide", "stop", "rendezvous", "fork", "step"]
    assert spans["decide"] == pytest.approx(life.policy.gather_s)
    assert sum(spans.values()) == pytest.approx(incident.resumed_s - incident.seen_s, abs=2e-3)
    down_s = incident_view(incident).down_s
    assert sum(spans.values()) == pytest.approx(down_s + life.policy.gather_s, abs=2e-3)


def recovered(life, ages: dict[str, float], step: int):
    """A rank dies, all begin again at once, and 2 s later tell how their start went."""
    life.dies(3, signal=9, step=10)
    life.answer(snapshots=[(10, life.job.history[0].epoch)])
    life.now += 2.0
    event = e.ProgressSeen(job="job", epoch=life.job.epoch, step=step, before=10, starts_s=ages)
    life.do(event)
    return life.incident


AGES = {"group": 1.9, "restore": 1.6, "step": 1.0}


def test_what_ranks_told_of_their_start_are_stages_of_the_recovery(training) -> None:
    spans = timeline(recovered(training(), AGES, 11))
    assert list(spans)[-3:] == ["group", "restore", "step"]
    assert [spans[stage] for stage in AGES] == pytest.approx([0.1, 0.3, 0.6], abs=0.02)


def test_a_recovery_ends_with_the_first_step_and_not_when_that_was_heard_of(training) -> None:
    life = training()
    assert recovered(life, AGES, 11).resumed_s == pytest.approx(life.now - 1.0)


def test_steps_that_are_done_again_are_a_stage_behind_the_first_step(training) -> None:
    life = training()
    life.dies(3, signal=9, step=10)
    life.answer(snapshots=[(6, life.job.history[0].epoch)])
    life.now += 2.0
    life.do(
        e.ProgressSeen(job="job", epoch=life.job.epoch, step=11, before=10, starts_s=AGES),
    )
    spans = timeline(life.incident)
    assert spans["step"] == pytest.approx(0.6)
    assert spans["redo"] == pytest.approx(1.0)
    assert life.incident.resumed_s == life.now


def test_stages_that_nobody_told_are_left_out(training) -> None:
    assert "group" not in timeline(recovered(training(), {}, 11))


def test_a_second_recovery_of_an_incident_tells_of_its_own_start_alone(training) -> None:
    life = training()
    life.dies(3, signal=9, step=10)
    life.answer()
    life.now += 2.0
    again = e.StepsRepeated(
        job="job", epoch=life.job.epoch, since=0, before=10, starts_s={"step": 1.0}
    )
    life.do(again)
    assert "step" in timeline(life.incident)
    life.dies(3, signal=9, step=5)
    assert list(timeline(life.incident)) == ["decide"]


@pytest.mark.parametrize(
    ("interrupt", "told"), [(False, "grace"), (True, "interrupt")], ids=["asked", "Ctrl-C"]
)
def test_how_ranks_end_is_told_until_the_job_is_over(training, interrupt: bool, told: str) -> None:
    life = training()
    life.do(e.StopRequested(job="job", interrupt=interrupt))
    assert {life.told(node).stop for node in ("n0", "n1")} == {told}
    grace_s = life.job.plan.grace_s
    assert life.job.timers[Timer.QUIET] == life.now + life.policy.quiet_s + grace_s


@pytest.mark.parametrize(
    ("asked", "killed", "said"),
    [
        (e.StopRequested, {}, "job is stopped"),
        (
            e.StopRequested,
            {"n0": (0,)},
            "job is stopped: rank 0 was killed, for it ran on 30 s after SIGTERM",
        ),
        (
            e.StopRequested,
            {"n1": (1,), "n0": (0,)},
            "job is stopped: ranks 0, 1 were killed, for they ran on 30 s after SIGTERM",
        ),
        (
            partial(e.StopRequested, interrupt=True),
            {"n0": (0,)},
            "job is stopped: rank 0 was killed, for it ran on 30 s after Ctrl-C",
        ),
        (
            e.SuspendRequested,
            {"n0": tuple(range(10))},
            "job is suspended and has given its nodes back: ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 "
            "more were killed, for they ran on 30 s after SIGTERM",
        ),
    ],
    ids=["none", "one", "two nodes", "interrupted", "many"],
)
def test_ranks_that_ran_on_after_sigterm_are_named(training, asked, killed, said) -> None:
    life = training()
    life.do(asked(job="job"))
    for node in ("n0", "n1"):
        quiet = e.NodeQuiet(job="job", epoch=life.job.epoch, node=node, killed=killed.get(node, ()))
        why = life.do(quiet).why
    assert why.split("; ")[-1] == said
