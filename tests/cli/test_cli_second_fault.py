"""A second fault before the job is as far as it was before the first: `holdfast run`, for real."""

import json

import pytest
from shells import Shell

pytestmark = [pytest.mark.cluster, pytest.mark.warm]

TRAINS = """
import os, signal, time, torch, torch.distributed as dist
from holdfast.checkpoint import Checkpointer
dist.init_process_group("gloo")
rank, attempt = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
state = {"model": model}
checkpointer = Checkpointer.from_env()
for step in range((checkpointer.restore(state) or 0) + 1, 81):
    model(torch.ones(2)).sum().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    if step == 30:
        checkpointer.save(step, state)
    if (attempt, rank, step) == ("0", 1, 60):
        os.kill(os.getpid(), signal.SIGSEGV)
    if (attempt, rank, step) == ("1", 0, 45):
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(0.05)
"""


def test_each_fault_has_its_rank_and_its_evidence(shell: Shell) -> None:
    pytest.importorskip("torch")
    shell.script("train.py", TRAINS)
    ended = shell.holdfast("run", "-n", "2", "train.py")
    assert ended.returncode == 0, ended.stderr
    said = [
        "rank 1 on node-1 died of SIGSEGV; restarting 2 ranks",
        "not back yet after",
        "rank 0 on node-1 holds the job up",
        "back at step 30 after",
    ]
    at = [ended.stderr.find(each) for each in said]
    assert -1 not in at, ended.stderr
    assert at == sorted(at), ended.stderr

    told = json.loads(shell.asked("status", "--json").stdout)
    first, second = (each for each in told["incidents"] if each["kind"] != "standstill")
    assert (first["rank"], first["steps_lost"]) == (1, 30)
    assert (second["rank"], second["steps_lost"]) == (0, 15)
    assert first["down_s"] + second["down_s"] < told["age_s"]
    assert "detect" not in first["stages_s"]
    assert second["stages_s"]["detect"] > first["stages_s"]["stop"]
    assert "last    rank 0 on node-1 holds the job up" in shell.asked("status").stdout

    lines = json.loads(shell.asked("story", "--json").stdout)["lines"]
    restarted = next(k for k, line in enumerate(lines) if "starts attempt 2" in line["text"])
    stood = [k for k, line in enumerate(lines) if "does not run" in line["text"]]
    assert stood
    assert min(stood) > restarted
    assert lines[max(stood)]["incident"] == second["number"], "told first, and then acted on"
