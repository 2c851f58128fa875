"""A person gives a job another version: what runs saves and ends, and the next attempt runs it."""

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Phase
from holdfast.driver.core.state.versions import KEPT, made_last
from holdfast.driver.follow.feed import expectation
from holdfast.driver.people.admission import refuse


def updated(life, command: str = "better.py") -> e.UpdateRequested:
    task = replace(life.job.plan.task, command=(command,))
    plan = replace(life.job.plan, task=task)
    return e.UpdateRequested(job="job", plan=plan, fields=("command",), by="ada")


def test_the_next_attempt_runs_it_on_the_same_nodes_from_the_last_step(training) -> None:
    life = training()
    nodes, first = life.job.nodes, life.job.epoch
    told = life.do(updated(life))
    assert "ada gives job version 2, which changes command" in told.why
    assert (life.phase, life.told("n0").stop) == (Phase.SUSPENDING, "grace")
    assert life.told("n0").task.command == ("better.py",)
    life.answer(stored=[(10, first)])
    assert (life.phase, life.job.nodes) == (Phase.RUNNING, nodes)
    assert life.job.history[-1].version == expectation(life.job).version == 2
    assert life.job.restore is not None
    assert life.job.restore.step == 10
    assert life.job.facts == (), "it was no fault"
    assert life.state.incidents == {}


@pytest.mark.parametrize("suspended", [False, True])
def test_a_job_at_rest_takes_it_and_goes_on_with_it(life, suspended: bool) -> None:
    life.node("n0")
    life.submit(nodes=2)
    if suspended:
        life.do(e.SuspendRequested(job="job"))
    before = life.phase
    life.do(updated(life))
    assert (life.phase, life.job.version.number) == (before, 2)
    if suspended:
        life.do(e.ResumeRequested(job="job"))
    life.node("n1")
    for node in ("n0", "n1"):
        life.do(e.NodeAllocated(job="job", node=node))
    life.answer()
    assert (life.phase, life.job.history[-1].version) == (Phase.RUNNING, 2)


def test_while_no_rank_runs_nodes_are_told_of_the_next_one_at_once(training) -> None:
    life = training()
    life.do(updated(life, "one.py"))
    before = life.job.epoch
    life.do(updated(life, "two.py"))
    told = life.told("n0")
    assert (told.epoch, told.stop) == (before, "grace"), "what still ends has its grace"
    assert told.task.command == ("two.py",)
    life.answer()
    assert (life.phase, life.job.running.plan.task.command) == (Phase.RUNNING, ("two.py",))


def test_what_ranks_do_not_see_changes_while_they_train(training) -> None:
    life = training()
    task = replace(life.job.plan.task, max_restarts=9, grace_s=7.0)
    budget = replace(life.job.plan.user, restarts=9)
    plan = replace(life.job.plan, task=task, user=budget, grace_s=7.0, ttl_s=60.0)
    epoch = life.job.epoch
    event = e.UpdateRequested(job="job", plan=plan, fields=("recovery", "ttlS"), by="ada")
    assert "ada changes recovery, ttlS of job" in life.do(event).why
    assert (life.phase, life.job.epoch, life.job.version.number) == (Phase.RUNNING, epoch, 1)
    assert life.job.plan == plan


@pytest.mark.parametrize("asked", [e.StopRequested, e.DeleteRequested])
def test_a_job_that_ends_takes_none(training, asked) -> None:
    life = training()
    life.do(asked(job="job"))
    refusal = refuse(life.state, updated(life))
    assert refusal is not None
    assert refusal.code == "ending-job"


def test_no_more_versions_are_kept_than_that_and_the_last_one_made_is_known(training) -> None:
    life = training()
    for number in range(KEPT + 4):
        life.do(updated(life, f"{number}.py"))
        life.answer()
    assert len(life.job.versions) == KEPT
    assert life.job.version.number == KEPT + 5
    assert made_last(life.job.versions) == life.job.version
    kept = msgspec.json.decode(msgspec.json.encode(life.job), type=type(life.job))
    assert kept == life.job
