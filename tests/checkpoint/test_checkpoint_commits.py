"""Agents as real processes commit whole checkpoints together, whoever of them dies."""

import os
import signal
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from checkpoint_agent import Start  # noqa: E402 - after the check for torch
from checkpoint_job import INTERVAL, Job, persisted  # noqa: E402
from waiting import eventually  # noqa: E402

from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402
from holdfast.checkpoint.slot_folder import SlotFolder  # noqa: E402
from holdfast.checkpoint.words import Skipped  # noqa: E402
from holdfast.protocol.messages import Restore, Stored, UploadLimits  # noqa: E402

pytestmark = pytest.mark.torch


def test_a_step_that_is_not_due_is_saved_when_it_is_ordered_and_found_by_who_looks(
    tmp_path: Path, start: Start
) -> None:
    job, leader, other = Job(tmp_path, world_size=2), start(), start()
    job.save(INTERVAL + 3)
    job.epoch += 1
    wanted = Stored(step=INTERVAL + 3, epoch=1)
    other.give(job.order(slots=(1,), save=wanted))
    leader.give(job.order(slots=(0,), save=wanted, look_up_store=True))
    found = leader.until(lambda report: report.stored == (wanted,), "it is in the store")
    assert found.epoch == 2
    assert job.whole() == [f"step-{INTERVAL + 3:08}-epoch-1"]
    assert torch.equal(job.restored(1, wanted), torch.full((4_000,), INTERVAL + 3 + 0.1))


def test_two_nodes_of_two_ranks_commit_one_checkpoint_and_each_rank_gets_its_own_back(
    tmp_path: Path, start: Start
) -> None:
    job, agents = Job(tmp_path, 4), (start(), start())
    agents[0].give(job.order(0, 1))
    agents[1].give(job.order(2, 3))
    for step in range(1, INTERVAL + 1):
        job.save(step)
    agents[0].until(persisted(INTERVAL), "rank 0's node has committed")
    assert job.whole() == ["step-00000010-epoch-1"]
    folder = job.store / job.whole()[0]
    names = ["manifest.json", *(f"shard-0000{r}-of-00004.safetensors" for r in range(4))]
    eventually(lambda: sorted(path.name for path in folder.iterdir()) == names, "no more is left")
    report = job.look_up(agents[0])
    assert report.stored == (Stored(step=INTERVAL, epoch=1),)
    for rank in range(4):
        expected = torch.full((4_000,), INTERVAL + rank / 10)
        assert torch.equal(job.restored(rank, report.stored[0]), expected)


def test_what_replicas_share_is_written_once_and_all_get_it_back(
    tmp_path: Path, start: Start
) -> None:
    job, agent = Job(tmp_path, 2), start()
    agent.give(job.order(0, 1))
    shared = {f"layer{number}": torch.full((10_000,), float(number)) for number in range(4)}
    checkpointers = [
        Checkpointer(job.checkpointer(rank)._settings, replicated=["model"]) for rank in range(2)
    ]
    for rank, checkpointer in enumerate(checkpointers):
        checkpointer.save(INTERVAL, {"model": shared, "own": torch.tensor([float(rank)])})
    agent.until(persisted(INTERVAL), "committed")
    sizes = [path.stat().st_size for path in job.store.glob("*/*.safetensors")]
    assert all(80_000 < size < 110_000 for size in sizes), "each rank writes half of what is shared"
    for rank in range(2):
        wanted = Restore(source="store", step=INTERVAL, epoch=1)
        state = {"model": {name: torch.zeros(10_000) for name in shared}, "own": torch.zeros(1)}
        job.checkpointer(rank, wanted).restore(state)
        assert all(torch.equal(state["model"][name], shared[name]) for name in shared)
        assert float(state["own"]) == rank


def test_replicas_that_differ_are_not_committed_and_it_is_said_which(
    tmp_path: Path, start: Start
) -> None:
    job, agent = Job(tmp_path, 2), start()
    agent.give(job.order(0, 1))
    for rank in range(2):
        state = {"model": {"same": torch.ones(9), "mean": torch.full((9,), float(rank))}}
        Checkpointer(job.checkpointer(rank)._settings, replicated=["model"]).save(INTERVAL, state)
    report = agent.until(lambda report: report.skipped_saves, "the checkpoint is not committed")
    assert report.skipped_why.startswith(
        "step-00000010-epoch-1 is not committed: 'model.mean' is declared the same on ranks "
    )
    assert job.whole() == []


def test_a_store_that_nodes_do_not_share_is_said_once(tmp_path: Path, start: Start) -> None:
    """As a path of each node's own disk: both write, and neither sees what the other wrote."""
    job, leader, follower = Job(tmp_path, 2), start(), start()
    leader.give(job.order(0))
    follower.give(job.order(1, store_url=f"file://{tmp_path}/elsewhere"))
    for step in (INTERVAL, 2 * INTERVAL, 3 * INTERVAL):
        job.save(step)
        done = tmp_path / "store" / "step-00000010-epoch-1" / "part-00000.json"
        eventually(done.exists, "the leader has written its part of the first")
    assert leader.last is None or not leader.last.skipped_saves
    job.save(4 * INTERVAL)
    report = leader.until(lambda report: report.skipped_saves, "it is said")
    assert report.skipped_saves == 1
    assert report.skipped_why.startswith("checkpoint of step 10 still lacks what ranks 1 have to")
    assert report.skipped_why.endswith("Mount the same there on every node")
    assert job.whole() == []


def test_agents_of_nodes_that_share_their_store_see_each_other(
    tmp_path: Path, start: Start
) -> None:
    job, leader, follower = Job(tmp_path, 2), start(), start()
    leader.give(job.order(0))
    follower.give(job.order(1))
    for agent in (leader, follower):
        agent.until(lambda report: report.store_shared, "it sees what the other one wrote")


def test_an_agent_killed_in_the_middle_of_a_commit_is_replaced_and_the_commit_ends(
    tmp_path: Path, start: Start
) -> None:
    job, leader, follower = Job(tmp_path, 2), start(), start()
    leader.give(job.order(0))
    os.kill(follower.pid, signal.SIGSTOP)
    follower.give(job.order(1))
    for step in range(1, INTERVAL + 1):
        job.save(step)
    eventually(lambda: list(job.store.glob("*/part-00000.json")), "the leader has written its part")
    follower.kill()
    assert job.whole() == []
    job.save(INTERVAL + 1)
    second = start()
    second.give(job.order(1))
    leader.until(persisted(INTERVAL), "committed with the new agent's part")
    leader.kill()
    third = start()
    third.give(job.order(0))
    for step in range(INTERVAL + 2, 2 * INTERVAL + 1):
        job.save(step)
    third.until(persisted(2 * INTERVAL), "a new leader goes on")
    assert job.whole() == ["step-00000010-epoch-1", "step-00000020-epoch-1"]


def test_a_step_that_one_node_never_saved_is_given_up_and_the_next_is_written(
    tmp_path: Path, start: Start
) -> None:
    job, leader, follower = Job(tmp_path, 2), start(), start()
    leader.give(job.order(0))
    follower.give(job.order(1))
    job.save(INTERVAL, 0)
    job.save(INTERVAL + 1, 1)
    job.save(2 * INTERVAL, 1)
    said = f"checkpoint of step {INTERVAL} given up: a rank no longer had it"
    leader.until(
        lambda report: report.skipped_saves and said in report.notes, "the step is given up"
    )
    assert job.whole() == []
    job.save(2 * INTERVAL, 0)
    leader.until(persisted(2 * INTERVAL), "the next one is whole")
    assert job.whole() == ["step-00000020-epoch-1"]


def test_as_many_checkpoints_stay_as_the_job_wants(tmp_path: Path, start: Start) -> None:
    job, agent = Job(tmp_path), start()
    agent.give(job.order(0, retention=2))
    for step in range(INTERVAL, 6 * INTERVAL, INTERVAL):
        job.save(step)
        agent.until(persisted(step), f"step {step} is written")
    eventually(lambda: len(list(job.store.iterdir())) == 2, "the old ones are gone")
    assert job.whole() == ["step-00000040-epoch-1", "step-00000050-epoch-1"]


def test_an_agent_of_an_older_epoch_neither_commits_nor_deletes(
    tmp_path: Path, start: Start
) -> None:
    job, old, new = Job(tmp_path), start(), start()
    old.give(job.order(0, retention=1))
    job.save(INTERVAL)
    old.until(persisted(INTERVAL), "written")
    assert job.look_up(new).stored == (Stored(step=INTERVAL, epoch=1),)
    job.save(2 * INTERVAL)  # by a rank that was cut off
    report = old.until(lambda report: report.notes, "the old agent has given up")
    assert report.notes == ("writing to the store has ended: a later attempt of the job has begun",)
    assert job.whole() == ["step-00000010-epoch-1"]


def test_what_was_due_is_still_written_when_the_ranks_have_ended_and_the_job_is_forgotten(
    tmp_path: Path, start: Start
) -> None:
    job, agent = Job(tmp_path), start()
    agent.give(job.order(0))
    agent.until(lambda report: report.id == 1, "the order is taken")
    os.kill(agent.pid, signal.SIGSTOP)
    job.save(INTERVAL)
    agent.give(job.order(slots=(0,)))
    forget = job.order(store_url="", store_interval_steps=0, forget_job="job")
    agent.give(forget)
    os.kill(agent.pid, signal.SIGCONT)
    agent.until(lambda report: report.id == forget.id, "the job is forgotten")
    assert job.whole() == ["step-00000010-epoch-1"]
    assert not (tmp_path / "r0").exists()


def test_a_snapshot_that_waits_for_the_store_in_vain_is_released(
    tmp_path: Path, start: Start
) -> None:
    """The leader's rank had no room for step 10 and is at 20; the other's only slot has 10."""
    job, leader, other = Job(tmp_path, 2), start(), start()
    other.give(job.order(1))
    leader.give(job.order(0))
    job.save(INTERVAL, 1)
    job.save(2 * INTERVAL, 0)
    eventually(
        lambda: SlotFolder(tmp_path / "r1").uploaded() == (1, INTERVAL),
        "step 10 is not waited for any more",
    )
    job.save(2 * INTERVAL + 1, 1)
    job.save(3 * INTERVAL)
    leader.until(persisted(3 * INTERVAL), "a later one is written")


def test_ranks_that_wait_with_steps_which_the_other_refused_are_released_at_once(
    tmp_path: Path, start: Start
) -> None:
    """Released in turn they would be apart again, where steps are shorter than a look."""
    job, agent = Job(tmp_path, 2), start()
    job.save(INTERVAL, 0)
    job.save(2 * INTERVAL, 1)
    for rank in (0, 1):
        refused = Skipped(epoch=1, count=9, in_a_row=9, why="no room", step=2 * INTERVAL + 3)
        SlotFolder(tmp_path / f"r{rank}").put_skipped(refused)
    agent.give(job.order(0, 1))
    eventually(
        lambda: (
            [SlotFolder(tmp_path / f"r{rank}").uploaded() for rank in (0, 1)]
            == [(1, INTERVAL), (1, 2 * INTERVAL)]
        ),
        "neither is waited for any more",
    )
    job.save(3 * INTERVAL)
    agent.until(persisted(3 * INTERVAL), "the next one is written")


@pytest.mark.parametrize("idle", [False, True])
def test_an_upload_within_bounds_keeps_what_is_to_stay_for_ever(
    tmp_path: Path, start: Start, idle: bool
) -> None:
    job, agent = Job(tmp_path), start()
    bounds = UploadLimits(mb_per_s=50, cpus=0.9, idle=idle)
    agent.give(job.order(0, retention=1, keep_every_steps=2 * INTERVAL, upload=bounds))
    for step in range(INTERVAL, 5 * INTERVAL + 1, INTERVAL):
        job.save(step)
        agent.until(persisted(step), "committed")
    kept = ["step-00000020-epoch-1", "step-00000040-epoch-1", "step-00000050-epoch-1"]
    eventually(lambda: job.whole() == kept, "the others are deleted")
