"""Ranks of a script that no Holdfast runs, which save to a store and restore from it.

Run as a script, by torchrun or by a test that forks: `alone_ranks.py URL STEPS OUT`.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from dying import die_with_parent
from torch import distributed

from holdfast.checkpoint.checkpointer import Checkpointer
from holdfast.checkpoint.stores.file import FileStore


def counted() -> list[str]:
    """Grows with the names of the shards that are read."""
    read: list[str] = []
    real = FileStore.get

    def get(store: FileStore, path: str, **range_: Any) -> Iterator[bytes]:
        if path.endswith(".safetensors"):
            read.append(path.rpartition("/")[2])
        return real(store, path, **range_)

    FileStore.get = get  # type: ignore[method-assign]
    return read


def train(url: str, steps: int, out: Path) -> None:
    """Sum the steps, some of them again; each rank tells where it began, and its sum."""
    rank = distributed.get_rank()
    read = counted()
    state = {
        "sum": torch.zeros(3),
        "rank": torch.tensor(rank),
        "more": torch.zeros(9),
        "data": {"position": 0},
    }
    checkpointer = Checkpointer(store_url=url, store_interval_steps=5, replicated=["sum", "more"])
    start = checkpointer.restore(state) or 0
    at_start = sorted(set(read))
    for step in range(start + 1, steps + 1):
        state["sum"] += step
        state["data"]["position"] = step
        checkpointer.save(step, state)
    told = {"start": start, "sum": state["sum"].tolist(), "rank": int(state["rank"])}
    told["read"] = at_start
    (out / f"{rank}.json").write_text(json.dumps(told))


def main(url: str, steps: str, folder: str) -> int:
    """Fork two ranks; how many of them failed."""
    out = Path(folder)
    meet = out / f"meet-{steps}"
    pids = []
    for rank in range(2):
        if not (pid := os.fork()):
            die_with_parent()
            distributed.init_process_group(
                "gloo", init_method=f"file://{meet}", rank=rank, world_size=2
            )
            train(url, int(steps), out)
            distributed.destroy_process_group()
            os._exit(0)
        pids.append(pid)
    return sum(os.waitpid(pid, 0)[1] != 0 for pid in pids)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
