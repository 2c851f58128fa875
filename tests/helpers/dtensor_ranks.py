"""Ranks of a model that PyTorch itself has sharded: FSDP2, and tensor parallelism below it.

Run as a script by tests of checkpoints, with what to do as JSON. One process imports torch, and
forks the ranks.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from dying import die_with_parent
from torch import distributed, nn
from torch.distributed.checkpoint import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from holdfast.checkpoint import shards
from holdfast.checkpoint.checkpointer import Checkpointer
from holdfast.checkpoint.dtensors import local
from holdfast.checkpoint.load_state import Mismatch
from holdfast.checkpoint.settings import Settings
from holdfast.checkpoint.stores.file import FileStore
from holdfast.protocol.messages import Restore
from holdfast.protocol.topology import Topology

STEP = 10


def whole_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    of_model, of_optimizer = get_state_dict(model, optimizer)
    return {"model": of_model, "optimizer": {"state": of_optimizer["state"]}}


class Rank:
    """One rank: its model, sharded and trained for a step that `seed` makes another one."""

    def __init__(self, rank: int, told: dict[str, Any], seed: int) -> None:
        dp, tp = told["dp"], told["tp"]
        self.rank, self.told = rank, told
        torch.set_num_threads(1)
        distributed.init_process_group(
            "gloo", init_method=f"file://{told['meet']}", rank=rank, world_size=dp * tp
        )
        mesh = init_device_mesh("cpu", (dp, tp), mesh_dim_names=("dp", "tp"))
        torch.manual_seed(seed)
        out = told.get("out", 1)
        last = nn.Linear(9, out)
        model = nn.Sequential(nn.Linear(6, 10), nn.Linear(10, 9), nn.LayerNorm(9), last)
        if tp > 1:
            plan = {"0": ColwiseParallel(), "1": RowwiseParallel()}
            parallelize_module(model, mesh["tp"], plan)
        self.model = fully_shard(model, mesh=mesh["dp"])
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.model(torch.rand(4, 6)).sum().backward()
        self.optimizer.step()

    def state(self) -> dict[str, Any]:
        """As torch has it: its dicts of DTensors, or the objects themselves."""
        if self.told.get("objects"):
            return {"model": self.model, "optimizer": self.optimizer}
        of_model, of_optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": of_model, "optimizer": of_optimizer}

    def checkpointer(self, epoch: int, restore: Restore | None = None) -> Checkpointer:
        told = self.told
        settings = Settings(
            job="job",
            epoch=epoch,
            rank=self.rank,
            world_size=told["dp"] * told["tp"],
            slots=Path(told["root"]) / f"r{self.rank}",
            store_url=told["store"],
            store_interval_steps=STEP,
            topology=Topology(dp=told["dp"], tp=told["tp"]),
            restore=restore,
        )
        return Checkpointer(settings)

    def alone(self) -> Checkpointer:
        return Checkpointer(store_url=self.told["store"], store_interval_steps=STEP)

    def tensors(self) -> dict[str, torch.Tensor]:
        """As torch has them, by their names."""
        return dict(tensors(whole_of(self.model, self.optimizer), ""))

    def whole(self) -> dict[str, torch.Tensor]:
        """All of it, put together by torch."""
        return {
            name: one.full_tensor() if isinstance(one, DTensor) else one
            for name, one in self.tensors().items()
        }


def tensors(value: dict[str, Any], path: str) -> Iterator[tuple[str, torch.Tensor]]:
    for key, part in value.items():
        name = f"{path}.{key}" if path else key
        if isinstance(part, dict):
            yield from tensors(part, name)
        else:
            yield name, part


def save(rank: Rank) -> None:
    """Save to this node's memory; rank 0 leaves what it is in whole, too."""
    assert rank.checkpointer(1).save(STEP, rank.state())
    keep(rank)


def keep(rank: Rank) -> None:
    whole = rank.whole()
    if rank.rank == 0:
        torch.save(whole, rank.told["whole"])


def restore(rank: Rank) -> None:
    """By Holdfast, as many ranks as have saved it."""
    wanted = Restore(source="store", step=STEP, epoch=1)
    assert rank.checkpointer(2, wanted).restore(rank.state()) == STEP
    compare(rank)


def save_alone(rank: Rank) -> None:
    """Straight to the store, in blocks of which a shard has several."""
    shards.BLOCK_BYTES = 64
    state = rank.state() | {"rank": rank.rank, "count": torch.tensor(rank.rank)}
    assert rank.alone().save(STEP, state)
    keep(rank)


def restore_alone(rank: Rank) -> None:
    """However many ranks there are, each reads what it needs, and tells how much that was."""
    read = Read()
    FileStore.get = read.get  # type: ignore[method-assign]
    state = rank.state() | {"rank": -1, "count": torch.tensor(-1)}
    assert rank.alone().restore(state) == STEP
    own = rank.rank if rank.rank < rank.told["saved"] else 0  # who is new has the first one's
    assert state["rank"] == state["count"] == own
    compare(rank)
    held = sum(local(one).nbytes for one in rank.tensors().values())
    told = {"read": read.shard_bytes, "held": held, "ranges": read.ranges}
    (Path(rank.told["root"]) / f"read-{rank.rank}.json").write_text(json.dumps(told))


def refused(rank: Rank) -> None:
    """A model of another shape: each mismatch is told, and nothing changes."""
    before = rank.whole()
    try:
        rank.alone().restore(rank.state())
    except Mismatch as error:
        (Path(rank.told["root"]) / f"refused-{rank.rank}").write_text(str(error))
    after = rank.whole()
    assert all(torch.equal(one, after[name]) for name, one in before.items())


class Read:
    """What is read of shards."""

    def __init__(self) -> None:
        self.ranges: list[tuple[str, int, int | None]] = []
        self.shard_bytes = 0
        self._lock = Lock()

    @property
    def get(self) -> Any:
        real = FileStore.get

        def counted(store: FileStore, path: str, **range_: Any) -> Iterator[bytes]:
            for chunk in real(store, path, **range_):
                if path.endswith(".safetensors"):
                    with self._lock:
                        self.shard_bytes += len(chunk)
                        self.ranges.append((path[-27:], range_.get("begin", 0), range_.get("end")))
                yield chunk

        return counted


def load(rank: Rank) -> None:
    """By torch alone, however many ranks there are."""
    dcp.load(rank.tensors(), storage_reader=HuggingFaceStorageReader(rank.told["folder"]))
    compare(rank)


def compare(rank: Rank) -> None:
    saved, found = torch.load(rank.told["whole"]), rank.whole()
    assert list(found) == list(saved)
    wrong = [name for name in saved if not torch.equal(found[name], saved[name])]
    assert not wrong, wrong


def main(do: Callable[[Rank], None], seed: int, told: dict[str, Any]) -> int:
    """Fork the ranks; how many of them failed."""
    pids = []
    for rank in range(told["dp"] * told["tp"]):
        if not (pid := os.fork()):
            die_with_parent()
            do(Rank(rank, told, seed))
            distributed.destroy_process_group()
            os._exit(0)
        pids.append(pid)
    return sum(os.waitpid(pid, 0)[1] != 0 for pid in pids)


if __name__ == "__main__":
    DO = {
        "save": (save, 1),
        "restore": (restore, 2),
        "load": (load, 3),
        "save_alone": (save_alone, 1),
        "restore_alone": (restore_alone, 2),
        "refused": (refused, 2),
    }
    sys.exit(main(*DO[sys.argv[1]], json.loads(sys.argv[2])))
