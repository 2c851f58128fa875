"""A whole run whose ranks enter different collectives, on gloo: people read who is the odd one."""

import re

import pytest
from shells import Shell

pytestmark = [pytest.mark.cluster, pytest.mark.torch, pytest.mark.slow, pytest.mark.warm]

SCRIPT = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
parameter = torch.nn.Parameter(torch.ones(1))
parameter.grad = torch.ones(1)
optimizer = torch.optim.SGD([parameter], lr=0.01)
values = torch.ones(1_000)
for step in range(60):
    if step == 40 + attempt and rank == (attempt + 1) % dist.get_world_size():
        match sys.argv[1:][attempt:][:1]:
            case ["barrier"]: dist.barrier()
            case ["broadcast"]: dist.broadcast(values, rank)
            case ["size"]: values = torch.ones(100_000)
    dist.all_reduce(values)
    optimizer.step()
"""
SAID = [
    "rank 1 called barrier where its peers called all_reduce",
    "rank 2 called broadcast where its peers called all_reduce",
    "rank 0 called all_reduce of another size than its peers",
]


def test_the_rank_in_another_collective_is_named_and_restarted(shell: Shell) -> None:
    """One run, whose ranks go wrong in another way in each of its attempts but the last."""
    shell.script("unlike.py", SCRIPT)
    words = ("run", "-n", "3", "unlike.py", "barrier", "broadcast", "size")
    ended = shell.holdfast(*words, timeout_s=240.0)
    assert ended.returncode == 0, ended.stderr
    restarts = [line for line in ended.stderr.splitlines() if re.search(r"restart \d of 3", line)]
    assert len(restarts) == len(SAID), ended.stderr
    assert [said in line for said, line in zip(SAID, restarts, strict=True)] == [True] * 3, restarts
    story = shell.asked("story").stdout
    assert all(said in story for said in SAID)
    assert SAID[-1] in shell.asked("why").stdout
    assert shell.leftovers() == []


def test_of_two_ranks_both_are_told_with_what_each_called(shell: Shell) -> None:
    shell.script("unlike.py", SCRIPT)
    ended = shell.holdfast("run", "-n", "2", "unlike.py", "size", timeout_s=120.0)
    assert ended.returncode == 0, ended.stderr
    assert "ranks 0 and 1 called all_reduce of different sizes" in ended.stderr
    assert "ranks 0 and 1 called all_reduce of different sizes" in shell.asked("why").stdout
    assert shell.leftovers() == []
