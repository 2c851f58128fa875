"""Checkpoints are read without Holdfast, by torch's own reader."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from checkpoint_agent import Start  # noqa: E402 - after the check for torch
from checkpoint_job import INTERVAL, Job, persisted  # noqa: E402

from holdfast.checkpoint.layout import Shard, parse_folder  # noqa: E402
from holdfast.protocol.topology import Axis, Topology  # noqa: E402

pytestmark = pytest.mark.torch

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
    few = torch.arange(3.0)  # of which two of the four ranks have nothing
    for rank, checkpointer in enumerate(job.ranks):
        tp = job.topology.coordinates(rank)[Axis.TP]
        state = {
            "model": {"w": whole[2 * tp : 2 * tp + 2], "norm": norm},
            "optimizer": {"m": moment[2 * rank : 2 * rank + 2]},
            "few": few[2 * rank : 2 * rank + 2],
            "mine": torch.full((2,), float(rank)),
            "lr": 0.1,
        }
        shards = {
            "model.w": Shard((4, 6), (2 * tp, 0), (Axis.DP,)),
            "model.norm": Shard((6,), (0,), (Axis.DP, Axis.TP)),
            "optimizer.m": Shard((8,), (2 * rank,)),
            "few": Shard((3,), (2 * rank,)),
        }
        checkpointer.save(INTERVAL, state, shards=shards)
    agent.until(persisted(INTERVAL), "committed")
    shapes = {"model.w": [4, 6], "model.norm": [6], "optimizer.m": [8], "few": [3], "mine": [2]}
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
    assert found["few"] == few.tolist()
    assert (found["mine"], found["rank-00003.mine"]) == ([0.0, 0.0], [3.0, 3.0])
    assert parse_folder(job.whole()[0]) == (INTERVAL, 1)
