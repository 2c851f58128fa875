"""Pauses that a script marks without knowing it, and where it stands meanwhile, in a real rank."""

from pathlib import Path
from typing import Any

import pytest
from waiting import eventually

pytestmark = pytest.mark.torch

STAGES = """
import io, os, time, torch
from holdfast import telemetry
here = os.path.dirname(__file__)

def hold(name):
    while not os.path.exists(os.path.join(here, name)):
        time.sleep(0.02)

class Slow(io.BytesIO):
    def write(self, data):
        hold("saved")
        return super().write(data)

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, at):
        hold(f"batch-{at}")
        return at

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def step():
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()

step()
torch.save(model.state_dict(), Slow())
hold("unmarked")
for at in torch.utils.data.DataLoader(Numbers()):
    pass
model.eval()
hold("evaluated")
model.train()
step()
hold("trained")
with telemetry.pause():
    hold("uploaded")
hold("never")
"""


def test_what_a_rank_does_in_place_of_steps_is_in_its_ring(ranks: Any) -> None:
    running = ranks(STAGES, 1)
    eventually(running.there, "a ring")

    def says(pause: str, unsaved: int | None = None) -> None:
        def so() -> bool:
            seen = running.read(0)
            return seen.pause == pause and unsaved in (None, seen.unsaved)

        eventually(so, f"it says {pause!r}")

    def go(name: str) -> None:
        (Path(running.folder) / name).touch()

    says("saves", 1)
    eventually(lambda: running.read(0).frame.startswith("hold ("), "where it stands")
    go("saved")
    says("", 0)
    go("unmarked")
    says("starts a data loader")
    go("batch-0")
    says("")
    for at in (1, 2, 3):
        go(f"batch-{at}")
    says("evaluates", 0)
    go("evaluated")
    says("", 1)
    go("trained")
    says("pauses")
    go("uploaded")
    says("")


HOLD = """
import os, sys, time, torch
here = os.path.dirname(__file__)

def hold(name):
    while not os.path.exists(os.path.join(here, name)):
        time.sleep(0.02)
"""
CHECKPOINTS = (
    HOLD
    + """
import torch.distributed.checkpoint as dcp

class Writer(dcp.FileSystemWriter):
    def set_up_storage_writer(self, *rest, **named):
        hold(turn)
        return super().set_up_storage_writer(*rest, **named)

class Reader(dcp.FileSystemReader):
    def read_metadata(self, *rest, **named):
        hold(turn)
        return super().read_metadata(*rest, **named)

class Stager:
    should_synchronize_after_execute = False
    _synchronize_after_execute = False
    def stage(self, state):
        hold(turn)
        return state
    def synchronize_staging(self):
        pass
    def close(self):
        pass

torch.distributed.init_process_group("gloo")
state = {"weights": torch.arange(8.0)}
folder = os.path.join(here, "saved")
turn = "save"
dcp.save(state, storage_writer=Writer(folder))
hold("between")
turn = "load"
dcp.load(state, storage_reader=Reader(folder))
hold("loaded")
turn = "async"
dcp.async_save(state, checkpoint_id=folder + "-2", async_stager=Stager())
hold("never")
"""
)
COMPILES = (
    HOLD
    + """
def backend(graph, inputs):
    hold(f"graph-{len(inputs)}")
    return graph.forward

def half(x):
    return x / 2 + 1

compiled = torch.compile(half, backend=backend)
hold("eager")
compiled(torch.ones(3))
hold("compiled")
compiled(torch.ones(3))
hold("again")
compiled(torch.ones(3, dtype=torch.float64))
hold("never")
"""
)


def says(running: Any, pause: str) -> None:
    eventually(lambda: running.read(0).pause == pause, f"it says {pause!r}")


def go(running: Any, name: str) -> None:
    (Path(running.folder) / name).touch()


def test_distributed_checkpoints_are_marked(ranks: Any) -> None:
    running = ranks(CHECKPOINTS, 1)
    eventually(running.there, "a ring")
    says(running, "saves")
    go(running, "save")
    says(running, "")
    go(running, "between")
    says(running, "loads")
    go(running, "load")
    says(running, "")
    go(running, "loaded")
    says(running, "saves")
    go(running, "async")
    says(running, "")


def test_each_graph_that_is_compiled_is_marked_and_a_call_of_it_is_not(ranks: Any) -> None:
    running = ranks(COMPILES, 1)
    eventually(running.there, "a ring")
    eventually(lambda: running.read(0).frame.startswith("hold ("), "it stands in eager code")
    assert running.read(0).pause == ""
    go(running, "eager")
    says(running, "compiles")
    go(running, "graph-1")
    says(running, "")
    go(running, "compiled")
    go(running, "again")
    says(running, "")
