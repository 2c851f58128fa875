"""A whole run whose ranks enter different collectives, on gloo: people read who is the odd one."""

import pytest
from shells import Shell

pytestmark = [pytest.mark.cluster, pytest.mark.torch, pytest.mark.slow]

SCRIPT = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, first = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
parameter = torch.nn.Parameter(torch.ones(1))
parameter.grad = torch.ones(1)
optimizer = torch.optim.SGD([parameter], lr=0.01)
values = torch.ones(1_000)
for step in range(60):
    if first and step == 40 and rank == 1:
        {odd}
    dist.all_reduce(values)
    optimizer.step()
"""
ODD = {
    "barrier": ("dist.barrier()", "rank 1 called barrier where its peers called all_reduce"),
    "broadcast": (
        "dist.broadcast(values, 1)",
        "rank 1 called broadcast where its peers called all_reduce",
    ),
    "size": (
        "values = torch.ones(100_000)",
        "rank 1 called all_reduce of another size than its peers",
    ),
}


@pytest.mark.parametrize("how", ODD)
def test_the_rank_in_another_collective_is_named_and_restarted(shell: Shell, how: str) -> None:
    odd, said = ODD[how]
    shell.script("unlike.py", SCRIPT.format(odd=odd))
    ended = shell.holdfast("run", "-n", "3", "unlike.py", timeout_s=120.0)
    assert ended.returncode == 0, ended.stderr
    restarts = [line for line in ended.stderr.splitlines() if "(restart 1 of 3)" in line]
    assert [said in line for line in restarts] == [True], ended.stderr
    assert said in shell.asked("why").stdout
    assert shell.leftovers() == []


def test_of_two_ranks_both_are_told_with_what_each_called(shell: Shell) -> None:
    shell.script("unlike.py", SCRIPT.format(odd=ODD["size"][0]))
    ended = shell.holdfast("run", "-n", "2", "unlike.py", timeout_s=120.0)
    assert ended.returncode == 0, ended.stderr
    assert "ranks 0 and 1 called all_reduce of different sizes" in ended.stderr
    assert shell.leftovers() == []
