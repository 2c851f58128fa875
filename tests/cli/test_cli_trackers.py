"""A script that is tracked by W&B, MLflow and TensorBoard is killed: each has one run that goes on,
and the restart is marked in it. The real libraries, without a network.
"""

import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from shells import Shell
from tracked import WandbRun
from waiting import eventually

MISSING = [library for library in ("mlflow", "tensorboard", "wandb") if find_spec(library) is None]
pytestmark = [
    *(pytest.mark.cluster, pytest.mark.torch, pytest.mark.slow, pytest.mark.warm),
    pytest.mark.skipif(bool(MISSING), reason=f"{MISSING} are not installed"),
]

STEPS, KILLED_AT = 30, 12
SCRIPT = f"""
import os, time, mlflow, torch, wandb
from torch.utils.tensorboard import SummaryWriter

net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
again = os.path.exists("pid")
run = wandb.init(project="demo", config={{"lr": 0.1}})
mlflow.start_run()
mlflow.log_params({{"lr": 0.1, "pid": os.getpid()}})
writer = SummaryWriter("curves")
for step in range({STEPS}):
    optimizer.zero_grad()
    loss = net(torch.ones(4)).square().sum()
    loss.backward()
    optimizer.step()
    run.log({{"loss": loss.item()}})
    mlflow.log_metric("loss", loss.item(), step=step)
    writer.add_scalar("loss", loss.item(), step)
    if step == {KILLED_AT} and not again:
        writer.flush()
        with open("pid.new", "w") as file:
            file.write(str(os.getpid()))
        os.rename("pid.new", "pid")
        time.sleep(600)
writer.close()
mlflow.end_run()
"""
SENTENCE = "attempt 2 from step 0, incident 1: rank 0 on node-1 died of SIGKILL"
MLFLOW = """
import json, mlflow
client = mlflow.MlflowClient()
runs = client.search_runs(["0"])

def metric(run, name):
    return [(each.step, each.value) for each in client.get_metric_history(run.info.run_id, name)]

print(json.dumps([
    {
        "tags": run.data.tags,
        "status": run.info.status,
        "steps": [step for step, _ in metric(run, "loss")],
        "attempts": metric(run, "holdfast/attempt"),
    }
    for run in runs
]))
"""


def _tracking(folder: Path) -> dict[str, str]:
    """Plain files: to make MLflow's database takes a minute of a busy disk."""
    return {"MLFLOW_TRACKING_URI": f"file://{folder}/mlruns", "MLFLOW_ALLOW_FILE_STORE": "true"}


@pytest.fixture
def killed(shell: Shell, tmp_path: Path) -> str:
    """The run is over; what was said on stderr."""
    shell.script("train.py", SCRIPT)
    shell.told = {"WANDB_MODE": "offline", **_tracking(tmp_path)}
    running = shell.start("run", "-n", "1", "train.py")
    eventually(lambda: (tmp_path / "pid").exists(), f"step {KILLED_AT}")
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    output, said = running.communicate(timeout=200.0)
    assert running.returncode == 0, said
    return output + said


def test_each_tool_has_one_run_that_goes_on_and_says_why_it_began_again(
    killed: str, tmp_path: Path
) -> None:
    _in_wandb(tmp_path / "wandb")
    _in_mlflow(tmp_path)
    _in_tensorboard(tmp_path / "curves")
    assert "MLflow keeps the parameters of the first attempt" in killed


def _in_wandb(folder: Path) -> None:
    before, after = map(WandbRun, sorted(folder.glob("offline-run-*")))
    assert before.id == after.id
    assert before.id.startswith("train-")
    assert "holdfast/attempt-2" not in before.config
    assert after.config["holdfast/attempt-2"] == SENTENCE
    assert len(after.rows) == STEPS, "the mark makes no row of its own"
    assert after.rows[0]["holdfast/attempt"] == 2


def _in_mlflow(folder: Path) -> None:
    (run,) = _mlflow(folder)
    assert run["tags"]["holdfast.attempt-2"] == SENTENCE
    assert run["status"] == "FINISHED"
    assert run["attempts"] == [[0, 2.0]]
    assert sorted(run["steps"]) == sorted([*range(KILLED_AT + 1), *range(STEPS)])


def _mlflow(folder: Path) -> list[dict[str, Any]]:
    told = subprocess.check_output(
        [sys.executable, "-c", MLFLOW], env=os.environ | _tracking(folder)
    )
    found: list[dict[str, Any]] = json.loads(told.splitlines()[-1])
    return found


def _in_tensorboard(folder: Path) -> None:
    told = subprocess.check_output([sys.executable, "-c", TENSORBOARD, str(folder)])
    found = json.loads(told.splitlines()[-1])
    assert found == {"steps": [*range(STEPS)], "attempts": [[0, 2.0]], "texts": [SENTENCE]}


TENSORBOARD = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1])
events.Reload()
texts = events.Tensors("holdfast/restarts/text_summary")
print(json.dumps({
    "steps": sorted({each.step for each in events.Scalars("loss")}),
    "attempts": [[each.step, each.value] for each in events.Scalars("holdfast/attempt")],
    "texts": [text.decode() for each in texts for text in each.tensor_proto.string_val],
}))
"""
