"""`holdfast run` of scripts that train on a GPU: killed, they end as if they had been left alone.

Two ranks share the one GPU, so they meet by gloo; NCCL, which takes a GPU a rank, has groups of
one rank each.
"""

import os
import re
import signal
from pathlib import Path

import pytest
from shells import Shell
from waiting import eventually

pytestmark = [pytest.mark.gpu, pytest.mark.cluster, pytest.mark.torch, pytest.mark.slow]

TRAIN = """
import hashlib, os, torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from holdfast.checkpoint import Checkpointer

STEPS = 120


def train():
    dist.init_process_group("gloo")
    own = [dist.new_group([rank], backend="nccl") for rank in range(dist.get_world_size())]
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(dist.get_rank())
    net = nn.Sequential(
        nn.Linear(256, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Dropout(0.2), nn.Linear(512, 1)
    ).cuda()
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    state = {"model": net, "optimizer": optimizer}
    checkpointer = Checkpointer.from_env(overlap=optimizer)
    done = checkpointer.restore(state) or 0
    marks = open(f"marks.{dist.get_rank()}", "a", buffering=1)
    for step in range(done + 1, STEPS + 1):
        optimizer.zero_grad()
        loss = model(torch.randn(64, 256, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        seen = loss.detach().clone()
        dist.all_reduce(seen, group=own[dist.get_rank()])
        assert torch.equal(seen, loss.detach())
        checkpointer.save(step, state)
        marks.write(f"{step} {os.getpid()}\\n")
    weights = hashlib.sha256()
    for name, value in sorted(net.state_dict().items()):
        weights.update(name.encode() + value.cpu().numpy().tobytes())
    if dist.get_rank() == 0:
        print("weights", weights.hexdigest())
    dist.destroy_process_group()
"""
WAYS = {
    "anew": TRAIN + "\n\ntrain()\n",
    "in their process": TRAIN + "\n\nimport holdfast\n\nholdfast.run(train)\n",
}


def weights(output: str) -> str:
    found = re.search(r"^weights (\w{64})$", output, re.MULTILINE)
    assert found, output
    return found[1]


def marks(folder: Path, rank: int) -> list[tuple[int, int]]:
    """Its steps, each with its process."""
    file = folder / f"marks.{rank}"
    lines = file.read_text().rpartition("\n")[0].splitlines() if file.exists() else []
    return [(int(step), int(pid)) for step, pid in map(str.split, lines)]


@pytest.mark.parametrize("way", WAYS)
def test_killed_ranks_end_with_the_weights_of_a_run_left_alone(shell: Shell, way: str) -> None:
    shell.script("train.py", WAYS[way])
    alone = shell.holdfast("run", "-n", "2", "--runs", "alone", "train.py")
    assert alone.returncode == 0, alone.stderr
    for file in shell.folder.glob("marks.*"):
        file.unlink()

    running = shell.start("run", "-n", "2", "train.py")
    for victim, at in ((1, 30), (0, 70)):
        eventually(lambda: (marks(shell.folder, victim) or [(0, 0)])[-1][0] >= at)  # noqa: B023
        os.kill(marks(shell.folder, victim)[-1][1], signal.SIGKILL)
    output, said = running.communicate(timeout=100.0)
    print(said)
    assert running.returncode == 0, said
    assert said.count("died of SIGKILL") == 2, said
    assert weights(output) == weights(alone.stdout), said
    pids = [{pid for _, pid in marks(shell.folder, rank)} for rank in (0, 1)]
    # Each was killed once; the survivor of a kill goes on where the script can begin anew.
    expected = 2 if way == "in their process" else 3
    assert [len(each) for each in pids] == [expected, expected], said


def test_a_run_that_has_a_gpu_for_each_rank_meets_by_nccl(shell: Shell) -> None:
    shell.script("train.py", WAYS["anew"].replace('group("gloo")', 'group("nccl")'))
    ended = shell.holdfast("run", "-n", "1", "train.py")
    assert ended.returncode == 0, ended.stderr
    assert weights(ended.stdout)
