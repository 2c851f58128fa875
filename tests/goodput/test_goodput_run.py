"""Five faults done to a real run from outside: what they cost is what a clock beside it says."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from shells import Shell, heard, shell_in
from waiting import eventually

from holdfast.driver.core.state.model import FINISHED

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

STEPS = 260
TRAINS = f"""
import os, pathlib, sys, time, torch, torch.distributed as dist
from holdfast.checkpoint import Checkpointer
dist.init_process_group("gloo")
rank = dist.get_rank()
here = pathlib.Path("told")
pathlib.Path(here / f"pid{{rank}}.new").write_text(str(os.getpid()))
os.rename(here / f"pid{{rank}}.new", here / f"pid{{rank}}")
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
state = {{"model": model}}
checkpointer = Checkpointer.from_env()
for step in range((checkpointer.restore(state) or 0) + 1, {STEPS} + 1):
    model(torch.ones(2)).sum().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    if step % 10 == 0:
        checkpointer.save(step, state)
    with open(here / f"steps{{rank}}", "a") as steps:
        print(step, os.getpid(), time.monotonic(), file=steps)
    if rank == 1 and (here / "exit").exists():
        (here / "exit").unlink()
        sys.exit(3)
    time.sleep(0.1)
"""


class Told:
    """What the ranks wrote down of their own steps, by the clock that this process has, too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "told"
        self.folder.mkdir()

    def steps(self) -> list[tuple[int, int, float]]:
        """Of rank 0: step, process, when it was done."""
        path = self.folder / "steps0"
        lines = path.read_text().splitlines() if path.exists() else []
        words = [line.split() for line in lines if len(line.split()) == 3]
        return [(int(step), int(pid), float(at_s)) for step, pid, at_s in words]

    def furthest(self) -> int:
        return max((step for step, _, _ in self.steps()), default=0)

    def pid(self, rank: int) -> int:
        return int((self.folder / f"pid{rank}").read_text())

    def passed_s(self, step: int) -> float:
        """When it was further than this for the first time."""
        return next(at_s for done, _, at_s in self.steps() if done > step)

    def reaches(self, step: int) -> None:
        eventually(lambda: self.furthest() >= step, f"step {step}")


def kill(told: Told, rank: int, number: int) -> None:
    os.kill(told.pid(rank), number)


def exits(told: Told, rank: int, _number: int) -> None:
    (told.folder / "exit").touch()


FAULTS = [
    (30, kill, 1, signal.SIGKILL),
    (70, kill, 0, signal.SIGSTOP),
    (110, exits, 1, 0),
    (150, kill, 0, signal.SIGSEGV),
    (195, kill, 1, signal.SIGSTOP),
]
"""At which step what is done to whom."""

STANDS_S = 5.0
"""How long a rank stands still at least before that counts (`hang_floor_s`)."""


class Measured(NamedTuple):
    """By a clock beside the run: what each fault cost; the time from its submission to when it was
    last seen not to have ended, and to when it was first seen to have; and what it said."""

    down_s: list[float]
    least_s: float
    most_s: float
    said: str


def end_of(shell: Shell) -> tuple[float, float]:
    """Between which moments the job ended. Once it has, its driver may have as well."""
    least_s = time.monotonic()
    while True:
        asked_s = time.monotonic()
        found = json.loads(shell.asked("status", "--json").stdout)
        if found["phase"] in FINISHED:
            return least_s, time.monotonic()
        least_s = asked_s


def run_with_faults(shell: Shell, told: Told) -> Measured:
    shell.script("train.py", TRAINS)
    process: subprocess.Popen[str] = shell.start("run", "-n", "2", "train.py")
    heard(process, "2 ranks here")
    began_s = time.monotonic()
    down_s = []
    for step, fault, rank, number in FAULTS:
        told.reaches(step)
        before, at_s = told.furthest(), time.monotonic()
        fault(told, rank, number)
        eventually(lambda far=before: told.furthest() > far + 2, "it is further than before")
        down_s.append(told.passed_s(before + 2) - at_s)
    told.reaches(STEPS)
    least_s, most_s = end_of(shell)
    said = heard(process, "done: ")
    assert process.wait(60) == 0, said
    return Measured(down_s, least_s - began_s, most_s - began_s, said)


def test_where_the_time_of_a_run_with_five_faults_went(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with shell_in(tmp_path, warm=True) as shell:
        told = Told(tmp_path)
        measured = run_with_faults(shell, told)
        name = shell.run.name
        goodput = json.loads(shell.asked("goodput", name, "--json").stdout)
        check(goodput, measured)
        check_words(shell, name, measured.said)


def check(goodput: dict[str, Any], measured: Measured) -> None:
    buckets = goodput["buckets_s"]
    assert sum(buckets.values()) == pytest.approx(goodput["wall_s"], abs=1e-6)
    assert 0.99 * measured.least_s < goodput["wall_s"] < 1.01 * measured.most_s, measured
    assert not {"unknown", "unseen"} & buckets.keys()
    costs = goodput["incidents"]
    assert len(costs) == len(FAULTS), costs
    for cost, down_s in zip(costs, measured.down_s, strict=True):
        assert cost["lost_s"] == pytest.approx(down_s, abs=1.5), (cost, down_s)
    stood = [cost["buckets_s"].get("detect", 0.0) for cost in costs]
    assert [s > STANDS_S - 1 for s in stood] == [f[3] == signal.SIGSTOP for f in FAULTS]
    kept_s = STEPS * 0.1
    assert buckets["kept"] == pytest.approx(kept_s, rel=0.25)
    assert goodput["ettr"] == pytest.approx(buckets["kept"] / goodput["wall_s"])


def check_words(shell: Shell, name: str, said: str) -> None:
    """The same for people: of the run that has ended, and of all."""
    assert "holdfast  time: " in said
    assert "faults cost" in said
    table = shell.asked("goodput", name).stdout
    assert "training that was kept" in table
    assert "time    █" in shell.asked("status", name).stdout
    fleet = json.loads(shell.asked("goodput", "--json").stdout)
    assert fleet["jobs"] == 1
    assert fleet["by_node"][0]["name"] == "node-1"
