"""Copies of snapshots on another node: agents as real processes, a rank that has lost its own."""

import json
import os
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from checkpoint_agent import AgentProcess, Start  # noqa: E402 - after the check for torch
from waiting import eventually  # noqa: E402

from holdfast.checkpoint.agent_protocol import AgentOrder  # noqa: E402
from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402
from holdfast.checkpoint.restoring import CheckpointRefused  # noqa: E402
from holdfast.checkpoint.settings import Settings  # noqa: E402
from holdfast.checkpoint.slot_folder import SlotFolder  # noqa: E402
from holdfast.protocol.messages import Peer, Restore, UploadLimits  # noqa: E402

pytestmark = pytest.mark.torch

URL = "file:///nowhere/life-1"


class Two:
    """Two nodes with a rank each; the first's copies go to the second."""

    def __init__(
        self, root: Path, start: Start, program: dict[str, Any] | None = None, **changes: Any
    ) -> None:
        self.root = root
        self.agents = [start(**program or {}), start()]
        self.orders = 0
        for node in range(2):
            self.order(node)
        ports = [self.port(agent) for agent in self.agents]
        self.peer = Peer(address="127.0.0.1", port=ports[1])
        self.order(0, **{"peer": self.peer} | changes)

    def order(self, node: int, **changes: Any) -> None:
        self.orders += 1
        root = self.root / f"node{node}"
        fields: dict[str, Any] = {
            "id": self.orders,
            "job": "job",
            "epoch": 1,
            "ranks": (node,),
            "world_size": 2,
            "slots": {node: str(root / f"r{node}")},
            "slots_root": str(root),
            "store_url": URL,
            "peer_interval_steps": 2,
        }
        self.agents[node].give(AgentOrder(**fields | changes))

    def port(self, agent: AgentProcess) -> int:
        return agent.until(lambda report: report.peer_port, "it takes copies").peer_port

    def rank(self, restore: Restore | None = None, *, world_size: int = 2) -> Checkpointer:
        folder = self.root / "node0" / "r0"
        settings = Settings(
            job="job",
            epoch=1,
            world_size=world_size,
            slots=folder,
            store_url=URL,
            peer_interval_steps=2,
            restore=restore,
        )
        return Checkpointer(settings)

    @property
    def copies(self) -> SlotFolder:
        return SlotFolder(self.root / "node1" / "r0")

    def copied(self) -> list[int]:
        return [seal.step for _, seal in self.copies.sealed()]


def state(step: int) -> dict[str, torch.Tensor]:
    return {"w": torch.arange(500_000) + step}


def restored(two: Two, step: int, peer: Peer | None) -> dict[str, torch.Tensor]:
    wanted = Restore(source="memory", step=step, epoch=1, peers={0: peer} if peer else {})
    into = {"w": torch.zeros(500_000, dtype=torch.int64)}
    assert two.rank(wanted).restore(into) == step
    return into


def test_a_rank_whose_node_is_lost_goes_on_from_the_copy(tmp_path: Path, start: Start) -> None:
    two = Two(tmp_path, start)
    rank = two.rank()
    for step in range(1, 6):
        rank.save(step, state(step))
        if step % 2 == 0:
            eventually(lambda step=step: step in two.copied(), "it is copied")
    assert two.copied() == [4, 2], "of what is due for that"
    two.agents[0].kill()
    shutil.rmtree(tmp_path / "node0")
    assert torch.equal(restored(two, 4, two.peer)["w"], state(4)["w"])
    assert [seal.step for _, seal in SlotFolder(tmp_path / "node0" / "r0").sealed()] == [4]


def test_its_own_memory_comes_first(tmp_path: Path, start: Start) -> None:
    two = Two(tmp_path, start)
    two.rank().save(2, state(2))
    nobody = Peer(address="127.0.0.1", port=1)
    assert torch.equal(restored(two, 2, nobody)["w"], state(2)["w"])


def test_a_copy_with_a_flipped_bit_is_not_believed(tmp_path: Path, start: Start) -> None:
    two = Two(tmp_path, start)
    two.rank().save(2, state(2))
    eventually(lambda: two.copied() == [2], "it is copied")
    slot, seal = two.copies.sealed()[0]
    with slot.data.open("r+b") as file:
        file.seek(seal.used_bytes - 3)
        file.write(b"\x55")
    two.agents[0].kill()  # it may be writing there
    shutil.rmtree(tmp_path / "node0")
    with pytest.raises(CheckpointRefused, match="its checksum does not match"):
        restored(two, 2, two.peer)


def test_a_peer_that_is_gone_or_has_not_that_step_is_said(tmp_path: Path, start: Start) -> None:
    two = Two(tmp_path, start)
    with pytest.raises(CheckpointRefused, match=r"its copy on 127.0.0.1: step 2 is not there"):
        restored(two, 2, two.peer)
    two.agents[1].kill()
    with pytest.raises(CheckpointRefused, match="Connection refused"):
        restored(two, 2, two.peer)


def test_the_copied_step_stays_here_until_a_later_one_is_copied(
    tmp_path: Path, start: Start
) -> None:
    two = Two(tmp_path, start)
    rank = two.rank()
    rank.save(2, state(2))
    own = SlotFolder(tmp_path / "node0" / "r0")
    eventually(lambda: own.copied() == (1, 2), "it is copied")
    two.agents[1].kill()
    for step in range(3, 12):
        assert rank.save(step, state(step))
    assert 2 in [seal.step for _, seal in own.sealed()]
    assert [seal.step for _, seal in own.sealed()][:2] == [11, 10]


def test_saves_go_on_while_one_is_sent_and_an_older_one_is_written(tmp_path: Path) -> None:
    folder = SlotFolder(tmp_path / "r0")
    rank = Checkpointer(
        Settings(
            job="job",
            epoch=1,
            slots=folder.folder,
            store_url=URL,
            store_interval_steps=2,
            peer_interval_steps=2,
        )
    )

    def busy(step: int) -> AbstractContextManager[int | None]:
        found = folder.find(step=step, epoch=1)
        assert found is not None
        return found[0].locked(exclusive=False)

    rank.save(2, state(2))
    with busy(2):  # it goes to the store
        rank.save(4, state(4))
        folder.put_copied(epoch=1, step=4)
        rank.save(6, state(6))
        with busy(6):  # it goes to the other node
            assert all(rank.save(step, state(step)) for step in range(7, 12))


def test_an_address_that_cannot_be_had_is_said_and_nothing_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    monkeypatch.setenv("HOLDFAST_NODE_ADDRESS", "192.0.2.1")
    agent = start()
    agent.give(AgentOrder(id=1, job="job", epoch=1, peer_interval_steps=1))
    report = agent.until(lambda report: report.notes, "it says so")
    assert report.notes[0].startswith("no copies of other nodes' snapshots are taken at 192.0.2.1:")
    assert report.peer_port == 0


def test_a_copy_is_taken_only_from_who_knows_the_job(tmp_path: Path, start: Start) -> None:
    two = Two(tmp_path, start, store_url="file:///nowhere/life-2")
    two.rank().save(2, state(2))
    two.agents[0].until(
        lambda report: any("the key is another job's" in note for note in report.notes), "refused"
    )
    assert two.copied() == []


@pytest.mark.parametrize("size", [0, 1_000_000])
def test_a_slot_that_was_cut_is_no_copy_and_ends_no_agent(
    tmp_path: Path, start: Start, size: int
) -> None:
    two = Two(tmp_path, start, peer=None)
    two.rank().save(2, state(2))
    two.agents[0].until(lambda report: report.snapshots, "it is believed")
    slot, _ = SlotFolder(tmp_path / "node0" / "r0").sealed()[0]
    os.truncate(slot.data, size)
    two.order(0, peer=two.peer)
    two.agents[0].until(
        lambda report: any("step 2 in memory has changed" in note for note in report.notes),
        "it says so",
    )
    assert two.copied() == []


def test_no_copy_is_taken_of_a_job_that_is_forgotten(tmp_path: Path, start: Start) -> None:
    """Another node hears of the job's end later, and what it sent would stay for ever."""
    two = Two(tmp_path, start)
    two.rank().save(2, state(2))
    eventually(lambda: two.copied() == [2], "it is copied")
    slots = {rank: str(tmp_path / "node1" / f"r{rank}") for rank in (0, 1)}
    two.order(1, ranks=(), slots=slots, forget_job="job")
    eventually(lambda: not (tmp_path / "node1" / "r0").exists(), "it is forgotten")
    two.rank().save(4, state(4))
    two.agents[0].until(
        lambda report: any("job job has ended" in note for note in report.notes), "refused"
    )
    assert not (tmp_path / "node1" / "r0").exists()


COUNTING = """
import json, os, sys, threading
from holdfast.checkpoint import agent, pace

class Counting(pace.Pace):
    def took(self, size_bytes):
        with open(sys.argv[1], "a") as file:
            print(json.dumps([id(self), size_bytes, os.sched_getscheduler(0)]), file=file)
        super().took(size_bytes)

agent.Pace = Counting
agent.main()
"""


def test_uploads_and_copies_share_one_pace_and_both_are_idle(tmp_path: Path, start: Start) -> None:
    told = tmp_path / "told"
    two = Two(
        tmp_path,
        start,
        program={"program": ("-c", COUNTING, str(told))},
        store_url=f"file://{tmp_path}/store",
        store_interval_steps=4,
        upload=UploadLimits(idle=True),
        world_size=1,
    )
    two.order(1, store_url=f"file://{tmp_path}/store")
    rank = two.rank(world_size=1)
    for step in (2, 4):
        rank.save(step, state(step))
        eventually(lambda step=step: step in two.copied(), "it is copied")
    eventually(lambda: list(tmp_path.glob("store/*/manifest.json")), "it is written")
    _, seal = two.copies.sealed()[0]

    def calls() -> list[list[int]]:
        return [json.loads(line) for line in told.read_text().splitlines()]

    # Whoever takes a copy has its last bytes before the sender says that they are gone.
    all_of_it = pytest.approx(3 * seal.used_bytes, rel=0.001)
    eventually(lambda: sum(size for _, size, _ in calls()) == all_of_it, "all is told")
    assert len({pace for pace, _, _ in calls()}) == 1
    assert {policy for _, _, policy in calls()} == {os.SCHED_IDLE}
