"""A rank that trained, and whose end takes longer than a rank may be silent: `holdfast run`."""

import pytest
from shells import Shell

pytestmark = [pytest.mark.cluster, pytest.mark.warm]

ENDS_SLOWLY = """
import time, torch

class Writer:
    def __del__(self, sleep=time.sleep):
        sleep(7)
        print("written", flush=True)

writer = Writer()
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(50):
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    time.sleep(0.02)
print("trained", flush=True)
"""


def test_finalizers_that_take_their_time_are_seen_to_run(shell: Shell) -> None:
    pytest.importorskip("torch")
    shell.script("train.py", ENDS_SLOWLY)
    ended = shell.holdfast("run", "-n", "1", "train.py")
    assert (ended.returncode, ended.stdout) == (0, "trained\nwritten\n"), ended.stderr
    assert "does not run" not in ended.stderr
    assert "no fault" in ended.stderr
