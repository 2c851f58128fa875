"""Agents as real processes: they commit whole checkpoints together, and refuse the others."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from checkpoint_agent import AgentProcess  # noqa: E402 - after the check for torch
from waiting import eventually  # noqa: E402

from holdfast.checkpoint.agent_protocol import AgentOrder, AgentReport  # noqa: E402
from holdfast.checkpoint.checkpointer import Checkpointer, RestoreFailed  # noqa: E402
from holdfast.checkpoint.layout import Shard, parse_folder  # noqa: E402
from holdfast.checkpoint.settings import Settings  # noqa: E402
from holdfast.protocol.messages import Restore, Stored  # noqa: E402
from holdfast.protocol.topology import Axis, Topology  # noqa: E402

pytestmark = pytest.mark.torch

INTERVAL = 10
Start = Callable[..., AgentProcess]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts agents; all have ended after the test."""
    agents: list[AgentProcess] = []

    def begin(*prefix: str) -> AgentProcess:
        agents.append(AgentProcess(*prefix))
        return agents[-1]

    yield begin
    for agent in agents:
        agent.close()


class Job:
    """Ranks of a job in this process: their slots, their states, their orders to agents."""

    def __init__(self, root: Path, world_size: int = 1, topology: Topology | None = None) -> None:
        self.root = root
        self.store = root / "store"
        self.world_size = world_size
        self.topology = topology or Topology(dp=world_size)
        self.epoch = 1
        self.orders = 0
        self.ranks = [self.checkpointer(rank) for rank in range(world_size)]

    def checkpointer(self, rank: int, restore: Restore | None = None) -> Checkpointer:
        return Checkpointer(
            Settings(
                job="job",
                epoch=self.epoch,
                rank=rank,
                world_size=self.world_size,
                slots=self.root / f"r{rank}",
                store_url=f"file://{self.store}",
                store_interval_steps=INTERVAL,
                topology=self.topology,
                restore=restore,
            )
        )

    def order(self, *ranks: int, slots: tuple[int, ...] = (), **changes: Any) -> AgentOrder:
        self.orders += 1
        fields: dict[str, Any] = {
            "id": self.orders,
            "job": "job",
            "epoch": self.epoch,
            "ranks": ranks,
            "world_size": self.world_size,
            "slots": {rank: str(self.root / f"r{rank}") for rank in ranks or slots},
            "store_url": f"file://{self.store}",
            "store_interval_steps": INTERVAL,
        }
        return AgentOrder(**fields | changes)

    def save(self, step: int, *ranks: int) -> None:
        for rank in ranks or range(self.world_size):
            assert self.ranks[rank].save(step, {"w": torch.full((4_000,), step + rank / 10)})

    def restored(self, rank: int, found: Stored) -> "torch.Tensor":
        wanted = Restore(source="store", step=found.step, epoch=found.epoch)
        state = {"w": torch.zeros(4_000)}
        assert self.checkpointer(rank, wanted).restore(state) == found.step
        return state["w"]

    def whole(self) -> list[str]:
        return sorted(path.parent.name for path in self.store.glob("*/manifest.json"))

    def look_up(self, agent: AgentProcess) -> AgentReport:
        """What the store has, as the driver asks for it: in an epoch of its own, no rank runs."""
        self.epoch += 1
        order = self.order(slots=tuple(range(self.world_size)), look_up_store=True)
        agent.give(order)
        return agent.until(
            lambda report: report.id == order.id and report.stored is not None, "looked up"
        )


def persisted(step: int) -> Callable[[AgentReport], bool]:
    return lambda report: report.persisted_step == step


# ---------------------------------------------------------------- together


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
    names = sorted(path.name for path in (job.store / job.whole()[0]).iterdir())
    assert names == ["manifest.json", *(f"shard-0000{r}-of-00004.safetensors" for r in range(4))]
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
    report = leader.until(lambda report: report.skipped_saves, "the step is given up")
    assert f"checkpoint of step {INTERVAL} given up: a rank no longer had it" in report.notes
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
    assert report.notes == ("writing to the store has ended: epoch 2 has begun, this is epoch 1",)
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


# ---------------------------------------------------------------- memory


def test_snapshots_are_reported_once_they_are_hashed_and_again_for_each_order(
    tmp_path: Path, start: Start
) -> None:
    job, agent = Job(tmp_path, 2), start()
    agent.give(job.order(0, 1))
    for step in (1, 2):
        job.save(step)
    report = agent.until(lambda report: len(report.snapshots) == 4, "all are known")
    assert [(one.rank, one.step, one.epoch) for one in report.snapshots] == [
        (0, 2, 1), (0, 1, 1), (1, 2, 1), (1, 1, 1),
    ]  # fmt: skip
    data = sorted((tmp_path / "r1").glob("slot-*.data"))
    for path in data:
        with path.open("r+b") as file:
            file.seek(-9, os.SEEK_END)
            file.write(b"\xff")
    again = job.order(slots=(0, 1))
    agent.give(again)
    report = agent.until(lambda report: report.id == again.id, "verified for the new order")
    assert {one.rank for one in report.snapshots} == {0}
    assert any("rank 1: the snapshot of step 2 (epoch 1) in memory has changed" in note
               for note in report.notes)  # fmt: skip


def test_slots_are_made_and_filled_before_the_first_save(tmp_path: Path, start: Start) -> None:
    job, agent = Job(tmp_path), start()
    agent.give(job.order(0))
    model = torch.nn.Linear(100, 1_000)
    job.ranks[0].restore({"model": model, "optimizer": torch.optim.Adam(model.parameters())})
    paths = [tmp_path / "r0" / f"slot-{number}.data" for number in range(4)]
    eventually(lambda: all(path.exists() for path in paths), "four slots are there")
    weights = 4 * 101_000
    assert all(path.stat().st_size > 3 * weights for path in paths), "with room for Adam's state"
    assert all(path.stat().st_blocks * 512 >= path.stat().st_size for path in paths), "no holes"


def test_the_agent_ends_when_its_executor_does_and_loads_no_torch(
    tmp_path: Path, start: Start
) -> None:
    agent = start()
    agent.give(Job(tmp_path).order(0))
    agent.until(lambda report: True, "it reports")
    maps = Path(f"/proc/{agent.pid}/maps").read_text()
    assert "libtorch" not in maps
    assert agent.close() == 0


def test_a_malformed_order_is_refused_and_the_one_before_stands(
    tmp_path: Path, start: Start
) -> None:
    job, agent = Job(tmp_path), start()
    agent.give(job.order(0))
    agent.until(lambda report: True, "it reports")
    assert agent.process.stdin is not None
    agent.process.stdin.write(b'{"id": "x"}\nnonsense\n')
    job.save(INTERVAL)
    agent.until(persisted(INTERVAL), "the order still stands")


# ---------------------------------------------------------------- stores that fail


def test_a_store_that_takes_no_more_is_told_and_tried_again_and_training_goes_on(
    tmp_path: Path, start: Start
) -> None:
    job, agent = Job(tmp_path), start()
    limits = resource.prlimit(agent.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (8_000, limits[1]))
    agent.give(job.order(0))
    for step in range(1, 3 * INTERVAL):
        job.save(step)
    report = agent.until(lambda report: report.store_error, "the store's error is told")
    assert "cannot write" in report.store_error
    assert "File too large. Raise the limit on file sizes there." in report.store_error
    assert report.snapshots
    assert report.persisted_step is None
    assert job.whole() == []
    resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, limits)
    report = agent.until(persisted(2 * INTERVAL), "it is written once the store takes it")
    agent.until(lambda report: report.store_error == "", "the error is taken back")
    assert not list(job.store.glob("*/.*")), "nothing half-written is left"


FULL_DISK = 'mkdir -p "$1" && mount -t tmpfs -o size=64k full "$1" && shift && exec "$@"'


def test_a_full_disk_under_the_store_is_told_and_snapshots_stay(
    tmp_path: Path, start: Start
) -> None:
    if subprocess.run(["unshare", "-Urm", "true"], check=False).returncode:
        pytest.skip("no user namespaces here: a small disk cannot be had")
    job = Job(tmp_path)
    agent = start("unshare", "-Urm", "sh", "-c", FULL_DISK, "sh", str(job.store))
    agent.give(job.order(0))
    for step in range(1, INTERVAL + 1):
        assert job.ranks[0].save(step, {"w": torch.zeros(50_000)})
    report = agent.until(lambda report: report.store_error, "the full disk is told")
    assert (
        "No space left on device. Free space there, or give the job another" in report.store_error
    )
    assert INTERVAL in [one.step for one in report.snapshots]


def test_a_store_that_is_none_is_told_in_a_sentence(tmp_path: Path, start: Start) -> None:
    job, agent = Job(tmp_path), start()
    agent.give(job.order(0, store_url="gopher://host/path"))
    job.save(INTERVAL)
    report = agent.until(lambda report: report.store_error, "told")
    assert report.store_error == (
        "storeUrl: 'gopher://host/path' is no store that this Holdfast knows. "
        "Use file:///an/absolute/folder that every node can write to."
    )


# ---------------------------------------------------------------- what is corrupt is never loaded


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 16
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def other_step(path: Path) -> None:
    """What a mixture of two steps looks like: this shard is another checkpoint's."""
    shutil.copy(path.parent.parent / "step-00000010-epoch-1" / path.name, path)


@pytest.mark.parametrize(
    ("name", "damage", "why"),
    [
        ("shard-00001-of-00002.safetensors", flip, "its checksum does not match the manifest's"),
        ("shard-00001-of-00002.safetensors", cut, "the manifest says"),
        ("shard-00000-of-00002.safetensors", Path.unlink, "the shard is not there"),
        ("shard-00000-of-00002.safetensors", other_step, "its checksum does not match"),
        ("manifest.json", cut, "its manifest: it cannot be read"),
        ("manifest.json", flip, "its manifest: "),
        ("manifest.json", other_step, "its manifest: it is of step 10, epoch 1"),
        ("manifest.json", Path.unlink, "it has no manifest"),
    ],
)
def test_a_damaged_checkpoint_is_refused_and_the_one_before_is_used(
    tmp_path: Path, start: Start, name: str, damage: Callable[[Path], object], why: str
) -> None:
    job, agent = Job(tmp_path, 2), start()
    agent.give(job.order(0, 1))
    for step in (INTERVAL, 2 * INTERVAL):
        job.save(step)
        agent.until(persisted(step), f"step {step} is written")
    damage(job.store / "step-00000020-epoch-1" / name)
    report = job.look_up(agent)
    assert report.stored == (Stored(step=INTERVAL, epoch=1),)
    refusal = next(note for note in report.notes if note.startswith("checkpoint refused: "))
    assert "step-00000020-epoch-1" in refusal
    assert why in refusal
    for rank in range(2):
        found = job.restored(rank, report.stored[0])
        assert torch.equal(found, torch.full((4_000,), INTERVAL + rank / 10))
    state = {"w": torch.zeros(4_000)}
    wanted = Restore(source="store", step=2 * INTERVAL, epoch=1)
    if name != "shard-00001-of-00002.safetensors":
        with pytest.raises(RestoreFailed, match="step-00000020-epoch-1"):
            job.checkpointer(0, wanted).restore(state)
        assert float(state["w"].sum()) == 0


def test_a_job_of_another_size_is_told_so(tmp_path: Path, start: Start) -> None:
    job, agent = Job(tmp_path), start()
    agent.give(job.order(0))
    job.save(INTERVAL)
    agent.until(persisted(INTERVAL), "written")
    job.world_size = 2
    with pytest.raises(RestoreFailed, match="written by 1 ranks, this job has 2"):
        job.restored(0, Stored(step=INTERVAL, epoch=1))


# ---------------------------------------------------------------- without Holdfast

WITHOUT_US = """
import json, sys
import torch, torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import HuggingFaceStorageReader
state = {name: torch.zeros(shape) for name, shape in json.loads(sys.argv[2]).items()}
dcp.load(state, storage_reader=HuggingFaceStorageReader(sys.argv[1]), no_dist=True)
assert not [name for name in sys.modules if name.startswith("holdfast")]
print(json.dumps({name: value.tolist() for name, value in state.items()}))
"""


@pytest.mark.slow  # importing torch's checkpoint package alone takes eight seconds of a core
@pytest.mark.timeout(400)
def test_torchs_own_reader_puts_split_tensors_together_without_holdfast(
    tmp_path: Path, start: Start
) -> None:
    job = Job(tmp_path, 4, Topology(dp=2, tp=2))
    agent = start()
    agent.give(job.order(0, 1, 2, 3))
    whole = torch.arange(24.0).reshape(4, 6)
    norm = torch.arange(6.0)
    moment = torch.arange(8.0)
    for rank, checkpointer in enumerate(job.ranks):
        tp = job.topology.coordinates(rank)[Axis.TP]
        state = {
            "model": {"w": whole[2 * tp : 2 * tp + 2], "norm": norm},
            "optimizer": {"m": moment[2 * rank : 2 * rank + 2]},
            "mine": torch.full((2,), float(rank)),
            "lr": 0.1,
        }
        shards = {
            "model.w": Shard((4, 6), (2 * tp, 0), (Axis.DP,)),
            "model.norm": Shard((6,), (0,), (Axis.DP, Axis.TP)),
            "optimizer.m": Shard((8,), (2 * rank,)),
        }
        checkpointer.save(INTERVAL, state, shards=shards)
    agent.until(persisted(INTERVAL), "committed")
    shapes = {"model.w": [4, 6], "model.norm": [6], "optimizer.m": [8], "mine": [2]}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT_US,
         str(job.store / job.whole()[0]), json.dumps({**shapes, "rank-00003.mine": [2]})],
        capture_output=True, text=True, timeout=380, check=False, cwd="/",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["model.w"] == whole.tolist()
    assert found["model.norm"] == norm.tolist()
    assert found["optimizer.m"] == moment.tolist()
    assert (found["mine"], found["rank-00003.mine"]) == ([0.0, 0.0], [3.0, 3.0])
    assert parse_folder(job.whole()[0]) == (INTERVAL, 1)
