"""A script as people write them, with two lines of ours: killed at random moments it ends with the
weights that it has when left alone, to the last bit.
"""

import os
import re
import signal
from pathlib import Path
from random import Random

import pytest
from shells import Shell
from waiting import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.torch, pytest.mark.slow, pytest.mark.warm]

PLAIN = """
import hashlib, os, sys, torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(dist.get_rank())
generator = torch.Generator().manual_seed(7)
inputs, targets = (torch.randn(256, n, generator=generator) for n in (128, 1))
data = TensorDataset(inputs, targets)
sampler = DistributedSampler(data, seed=3)
loader = DataLoader(data, batch_size=16, sampler=sampler, generator=torch.Generator())
net = nn.Sequential(
    nn.Linear(128, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Dropout(0.2),
    nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1),
)
model = DistributedDataParallel(net)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=200)
done = 0
# restore
marks = open(f"marks.{dist.get_rank()}", "a", buffering=1)
for epoch in range(done // len(loader), 16):
    sampler.set_epoch(epoch)
    for batch, (x, y) in enumerate(loader):
        step = epoch * len(loader) + batch + 1
        if step <= done:
            continue
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        scheduler.step()
        # save
        marks.write(f"{step} {os.getpid()}\\n")
weights = hashlib.sha256()
for name, value in sorted(net.state_dict().items()):
    weights.update(name.encode() + value.numpy().tobytes())
if dist.get_rank() == 0:
    print("weights", weights.hexdigest())
dist.destroy_process_group()
"""
OURS = PLAIN.replace(
    "# restore",
    """
from holdfast.checkpoint import Checkpointer
state = {"model": net, "optimizer": optimizer, "schedule": scheduler}
checkpointer = Checkpointer.from_env()
done = checkpointer.restore(state) or 0
""".strip(),
).replace("# save", "checkpointer.save(step, state)")
STEPS, KILLS, SEED = 128, 4, 1


def weights(output: str) -> str:
    found = re.search(r"^weights (\w{64})$", output, re.MULTILINE)
    assert found, output
    return found[1]


def mark(folder: Path, rank: int) -> tuple[int, int]:
    """The last step of a rank, and its process."""
    file = folder / f"marks.{rank}"
    lines = file.read_text().rpartition("\n")[0].splitlines() if file.exists() else []
    step, pid = lines[-1].split() if lines else (0, 0)
    return int(step), int(pid)


def test_killed_at_random_it_ends_with_the_weights_of_a_run_left_alone(
    shell: Shell, tmp_path: Path
) -> None:
    shell.script("plain.py", PLAIN)
    alone = shell.holdfast("run", "-n", "2", "--runs", "alone", "plain.py", timeout_s=200.0)
    assert alone.returncode == 0, alone.stderr
    for file in tmp_path.glob("marks.*"):
        file.unlink()

    shell.script("ours.py", OURS)
    running, rng = shell.start("run", "-n", "2", "--max-restarts", "9", "ours.py"), Random(SEED)
    for number in range(1, KILLS + 1):
        victim, at = rng.randrange(2), STEPS * number // (KILLS + 1) + rng.randrange(9)
        eventually(lambda: mark(tmp_path, victim)[0] >= at, f"step {at}")  # noqa: B023
        os.kill(mark(tmp_path, victim)[1], signal.SIGKILL)
    output, said = running.communicate(timeout=200.0)
    assert running.returncode == 0, said
    assert said.count("died of SIGKILL") == KILLS, said
    assert weights(output) == weights(alone.stdout)
