"""Ranks of a model that PyTorch itself has sharded: FSDP2, and tensor parallelism below it.

Run as a script by tests of checkpoints, with what to do as JSON. One process imports torch, and
forks the ranks.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
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
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from holdfast.checkpoint.checkpointer import Checkpointer
from holdfast.checkpoint.layout import Shard
from holdfast.checkpoint.settings import Settings
from holdfast.protocol.messages import Restore
from holdfast.protocol.topology import Axis, Topology

STEP = 10


def local(value: Any, path: str, shards: dict[str, Shard]) -> Any:
    """The same state with the local part of each DTensor; its place in the whole to `shards`."""
    if isinstance(value, dict):
        return {key: local(part, f"{path}.{key}", shards) for key, part in value.items()}
    if not isinstance(value, DTensor):
        return value
    mesh, placements = value.device_mesh, value.placements
    _, offsets = compute_local_shape_and_global_offset(value.shape, mesh, placements)
    named = zip(mesh.mesh_dim_names or (), placements, strict=True)
    sharded = {name for name, placement in named if not placement.is_replicate()}
    replicas = tuple(axis for axis in (Axis.DP, Axis.TP) if axis.value not in sharded)
    shards[path] = Shard(tuple(value.shape), tuple(offsets), replicas)
    return value.to_local()


def whole_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    of_model, of_optimizer = get_state_dict(model, optimizer)
    return {"model": of_model, "optimizer": of_optimizer["state"]}


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
        model = nn.Sequential(nn.Linear(6, 10), nn.Linear(10, 9), nn.LayerNorm(9), nn.Linear(9, 1))
        if tp > 1:
            plan = {"0": ColwiseParallel(), "1": RowwiseParallel()}
            parallelize_module(model, mesh["tp"], plan)
        self.model = fully_shard(model, mesh=mesh["dp"])
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.model(torch.rand(4, 6)).sum().backward()
        self.optimizer.step()

    def state(self, shards: dict[str, Shard]) -> dict[str, Any]:
        whole = whole_of(self.model, self.optimizer)
        return {key: local(part, key, shards) for key, part in whole.items()}

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
    shards: dict[str, Shard] = {}
    state = rank.state(shards)
    assert rank.checkpointer(1).save(STEP, state, shards=shards)
    whole = rank.whole()
    if rank.rank == 0:
        torch.save(whole, rank.told["whole"])


def restore(rank: Rank) -> None:
    """By Holdfast, as many ranks as have saved it."""
    wanted = Restore(source="store", step=STEP, epoch=1)
    assert rank.checkpointer(2, wanted).restore(rank.state({})) == STEP
    compare(rank)


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
    DO = {"save": (save, 1), "restore": (restore, 2), "load": (load, 3)}
    sys.exit(main(*DO[sys.argv[1]], json.loads(sys.argv[2])))
