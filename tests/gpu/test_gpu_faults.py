"""What CUDA and NCCL really say where a script goes wrong on a GPU, and what is told of it."""

import pytest
from shells import Shell

pytestmark = [pytest.mark.gpu, pytest.mark.cluster, pytest.mark.torch, pytest.mark.slow]

FAULTS: dict[str, tuple[int, str, str]] = {
    "an index that is not there": (
        1,
        "torch.zeros(4, device='cuda')[torch.tensor([9], device='cuda')].sum().item()",
        "user code",
    ),
    "more memory than there is": (
        1,
        "torch.empty(1 << 40, device='cuda')",
        "user code",
    ),
    "no GPU is to be seen": (
        1,
        "torch.zeros(4, device='cuda')",
        "not sure",
    ),
    "two ranks on one GPU": (
        2,
        "dist.init_process_group('nccl'); dist.all_reduce(torch.ones(4, device='cuda'))",
        "user code",
    ),
}
"""By what goes wrong: ranks, the line, and who is said to be to blame."""


@pytest.mark.parametrize("fault", FAULTS)
def test_the_end_of_a_rank_is_told_for_what_it_is(shell: Shell, fault: str) -> None:
    ranks, line, blamed = FAULTS[fault]
    shell.script("train.py", f"import torch, torch.distributed as dist\n{line}\n")
    if fault == "no GPU is to be seen":
        shell.told["CUDA_VISIBLE_DEVICES"] = ""
    ended = shell.holdfast("run", "-n", str(ranks), "--max-restarts", "3", "train.py")
    print(fault, "\n", ended.stdout, "\n", ended.stderr)
    assert ended.returncode != 0
    assert blamed in ended.stderr


def test_a_kernel_that_takes_long_is_no_fault(shell: Shell) -> None:
    shell.script(
        "train.py",
        """
import torch
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    model(torch.ones(8, 8, device="cuda")).sum().backward()
    optimizer.step()
    if step == 20:
        torch.cuda._sleep(20_000_000_000)
    torch.cuda.synchronize()
print("done")
""",
    )
    ended = shell.holdfast("run", "-n", "1", "train.py")
    print(ended.stderr)
    assert ended.returncode == 0
    assert "no fault" in ended.stderr
