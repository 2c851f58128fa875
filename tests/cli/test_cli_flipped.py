"""A bit of one replica's parameter that somebody flips from outside is told, and whose it is."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from shells import Shell
from waiting import DEADLINE_S, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.torch, pytest.mark.warm]

TRAINS = """
import os, pathlib, time
import torch
import torch.distributed as dist
from holdfast import telemetry
from holdfast.checkpoint import Checkpointer

dist.init_process_group("gloo")
rank = dist.get_rank()
state = {"model": {"w": torch.ones(1_000)}, "own": {"mean": torch.full((9,), float(rank))}}
checkpointer = Checkpointer.from_env(replicated=["model"])
checkpointer.restore(state)
place = state["model"]["w"].data_ptr()
pathlib.Path(f"new-{rank}").write_text(f"{os.getpid()} {place}")
pathlib.Path(f"new-{rank}").replace(f"rank-{rank}")
for step in range(1, 1_000_000):
    gradient = torch.full((1_000,), float(step + rank))
    dist.all_reduce(gradient)
    state["model"]["w"] -= 1e-6 * gradient
    state["own"]["mean"] += rank
    telemetry.step(step)
    checkpointer.save(step, state)
    over = torch.tensor(float(pathlib.Path("enough").exists()))
    dist.all_reduce(over)
    if over:
        break
    time.sleep(0.02)
"""
"""Replicas that sum their gradients; each has statistics of its own, which nobody declares."""


def flip(folder: Path, rank: int) -> None:
    pid, place = map(int, (folder / f"rank-{rank}").read_text().split())
    memory = os.open(f"/proc/{pid}/mem", os.O_RDWR)
    try:
        byte = os.pread(memory, 1, place + 40)[0]
        os.pwrite(memory, bytes([byte ^ 0x10]), place + 40)
    finally:
        os.close(memory)


@pytest.mark.parametrize(("ranks", "named"), [(3, True), (2, False)])
def test_who_differs_is_named_among_three_and_not_among_two(
    shell: Shell, ranks: int, named: bool
) -> None:
    pytest.importorskip("torch")
    shell.script("train.py", TRAINS)
    run = shell.start("run", "-n", str(ranks), "--store-every", "10", "train.py")

    def stored() -> list[Path]:
        return list(shell.folder.glob("runs/*/jobs/*/checkpoints/*/*/manifest.json"))

    eventually(stored, "a checkpoint that all agree on")
    flip(shell.folder, 1)

    def told() -> list[dict[str, Any]]:
        answer = shell.asked("status", "--json")
        incidents = json.loads(answer.stdout).get("incidents", []) if answer.stdout else []
        return [each for each in incidents if each["kind"] == "silent-corruption"]

    eventually(told, "it is told")
    (shell.folder / "enough").touch()
    _, err = run.communicate(timeout=DEADLINE_S)
    assert run.returncode == 0, err
    (found,) = told()
    assert (found["rank"], found["node"] is not None) == ((1, True) if named else (None, False))
    if named:
        assert re.search(
            r"rank 1 on \S+ holds other bytes than ranks 0, 2, which agree, of 'model.w'", err
        )
    else:
        assert "ranks 0, 1 hold different bytes (which is wrong two cannot tell) of" in err
    assert "restarting" not in err
