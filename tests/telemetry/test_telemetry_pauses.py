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
