"""Hooks in real gloo ranks of scripts that import nothing of ours."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import eventually

pytestmark = pytest.mark.torch

DDP = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
pair = dist.new_group([0, 1])
if rank < 2:
    dist.all_reduce(torch.ones(3), group=pair)
token = torch.ones(1)
if rank == 0:
    dist.send(token, 1)
    dist.recv(token, dist.get_world_size() - 1)
else:
    dist.recv(token, rank - 1)
    dist.send(token, (rank + 1) % dist.get_world_size())
dist.barrier()
print("done", flush=True)
import time
while True:
    time.sleep(0.1)
"""


def test_an_unmodified_ddp_script_is_counted_right(ranks: Any) -> None:
    running = ranks(DDP, 3)
    eventually(lambda: running.there() and "done" in running.output(2), "the script is done")

    def all_done() -> bool:
        return all(g.enqueued == g.done for r in range(3) for g in running.read(r).groups)

    eventually(all_done, "every collective is seen to be done")
    for rank in range(3):
        seen = running.read(rank)
        # DDP: verify shapes, broadcast twice, 10 gradient buckets; then the barrier.
        world, *pair = seen.groups
        assert world.ranks == (0, 1, 2)
        assert dict(world.marks)[10] - dict(world.marks)[8] == 2, "one bucket a step"
        assert world.enqueued == running.read(0).groups[0].enqueued
        assert seen.step == 10
        assert [group.ranks for group in pair] == ([(0, 1)] if rank < 2 else [])
        assert [group.enqueued for group in pair] == ([1] if rank < 2 else [])
        towards = {peer.peer: (peer.sends, peer.receives) for peer in seen.peers}
        assert towards == {(rank + 1) % 3: (1, 0), (rank - 1) % 3: (0, 1)}
        assert seen.partial == ("step numbers",), "steps are counted from the start of the process"


def test_ranks_that_talk_in_one_shape_have_one_fingerprint(ranks: Any) -> None:
    running = ranks(
        "import torch, torch.distributed as dist, time\n"
        "dist.init_process_group('gloo')\n"
        "dist.all_reduce(torch.ones(4, 8))\n"
        "print('done', flush=True)\n"
        "while True: time.sleep(.1)\n",
        2,
    )
    eventually(lambda: running.there() and "done" in running.output(1), "done")
    first, second = (running.read(rank).groups[0] for rank in range(2))
    assert first.fingerprint == second.fingerprint != 0


SCATTERS = """
import time, torch, torch.distributed as dist
from holdfast.telemetry import current
dist.init_process_group("gloo")
for _ in range(3):
    dist.reduce_scatter_tensor(torch.zeros(2), torch.ones(4))
    dist.all_reduce(torch.ones(2))
print("waited", flush=True)
while current.recorder._groups[0].pending:
    time.sleep(.01)
print("done", flush=True)
time.sleep(1000)
"""


def test_a_work_that_never_says_so_is_done_once_it_was_waited_for(ranks: Any) -> None:
    """A reduce-scatter of gloo's; what follows it would be kept with its tensors for ever."""
    running = ranks(SCATTERS, 2)
    eventually(lambda: running.there() and "done" in running.output(1), "done", SOON_S)
    assert running.read(1).groups[0].done == 6


SOON_S = 30.0


END = """
import torch, torch.distributed as dist, sys
dist.init_process_group("gloo")
rank = dist.get_rank()
works = [dist.all_reduce(torch.ones(4), async_op=True) for _ in range(100)]
works[-1].wait()
dist.barrier()
{end}
"""


@pytest.mark.parametrize(
    ("end", "codes"),
    [
        pytest.param("", [0, 0], id="runs to its end with its group open"),
        pytest.param("dist.destroy_process_group()", [0, 0], id="destroys its group"),
        pytest.param("sys.exit(3)", [3, 3], id="exits with a code"),
        pytest.param("raise ValueError('no such luck')", [1, 1], id="raises"),
        pytest.param("import os; os._exit(5)", [5, 5], id="leaves without a word"),
    ],
)
def test_hooks_do_not_change_how_a_rank_ends(ranks: Any, end: str, codes: list[int]) -> None:
    running = ranks(END.format(end=end), 2)
    assert eventually(running.exit_codes, "both ended") == codes, running.output(0)


def test_an_uncaught_exception_is_written_as_torch_elastic_does(ranks: Any) -> None:
    running = ranks("def f():\n    raise KeyError('a b')\nf()\n", 1)
    eventually(running.exit_codes, "ended")
    said = json.loads((running.folder / "0.json").read_text())["message"]
    assert said["message"] == "KeyError: 'a b'"
    assert "in f" in said["extraInfo"]["py_callstack"]
    assert said["extraInfo"]["timestamp"].isdecimal()
    assert "Traceback" in running.output(0), "the user sees the exception as ever"


def test_exit_is_no_exception(ranks: Any) -> None:
    running = ranks("import sys; sys.exit('bye')", 1)
    assert eventually(running.exit_codes, "ended") == [1]
    assert not (running.folder / "0.json").exists()


FAULTY = """
import torch, torch.distributed as dist
from holdfast.telemetry.recorder import Group, Recorder
def broken(*_): raise RuntimeError("ours")
Group.enqueue = broken
Recorder.pending = broken
Recorder.stepped = broken
dist.init_process_group("gloo")
x = torch.ones(2)
dist.all_reduce(x)
p = torch.nn.Parameter(torch.ones(1)); p.grad = torch.ones(1)
torch.optim.SGD([p], lr=1.0).step()
print("survived", x.tolist(), flush=True)
import time
while True: time.sleep(.1)
"""


def test_an_error_of_ours_never_reaches_the_user_and_is_said(ranks: Any) -> None:
    running = ranks(FAULTY, 2)
    eventually(lambda: "survived [2.0, 2.0]" in running.output(0), "the script goes on")
    assert "collectives" in running.read(0).partial


LATER = """
import gc, os
from pathlib import Path
from holdfast.telemetry import hooks
from holdfast.telemetry.ring import RingReader
hooks.install()
assert "torch" not in __import__("sys").modules
import torch, torch.distributed as dist
dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
dist.barrier()
p = torch.nn.Parameter(torch.ones(1)); p.grad = torch.ones(1)
torch.optim.SGD([p], lr=1.0).step()
gc.collect()
gc.disable()
ring = RingReader(Path(os.environ["HOLDFAST_RING"]))
collected_s = ring.read().garbage_s
pid = os.fork()
if pid == 0:
    torch.optim.SGD([p], lr=1.0).step()  # a child is not the rank
    gc.collect()
    os._exit(0)
os.waitpid(pid, 0)
assert ring.read().garbage_s == collected_s > 0
"""


def test_torch_may_come_after_the_hooks_and_children_are_not_the_rank(tmp_path: Path) -> None:
    from holdfast.telemetry.ring import RingReader

    ring = tmp_path / "r.ring"
    env = {**os.environ, "HOLDFAST_RING": str(ring), "RANK": "0", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", LATER], env=env, check=True, timeout=280)
    seen = RingReader(ring).read()
    assert (seen.step, seen.groups[0].enqueued, seen.groups[0].kind) == (1, 1, "barrier")


ROOMLESS = """
from holdfast.telemetry import current, hooks, phase, step
hooks.install()
step(1, loss=0.5, tokens=10)
with phase("forward"):
    pass
assert current.recorder.ring.lacks is not None
print("done")
"""


def test_no_room_for_a_ring_leaves_the_script_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    told = {"HOLDFAST_RING": str(tmp_path / "file" / "r.ring"), "RANK": "0"}
    words = [sys.executable, "-c", ROOMLESS]
    done = subprocess.run(words, env={**os.environ, **told}, capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr


HELD_UP = """
import time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(12):
    time.sleep(0.05 * rank)  # a slow loader
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
print("done", flush=True)
while True:
    time.sleep(0.1)
"""


def test_who_waits_for_a_slow_peer_is_told_of_a_script_that_says_nothing(ranks: Any) -> None:
    running = ranks(HELD_UP, 2)
    eventually(lambda: running.there() and "done" in running.output(1), "the script is done")
    eventually(lambda: {running.read(rank).step for rank in (0, 1)} == {12}, "12 steps were seen")
    quick, slow = running.read(0), running.read(1)
    assert quick.waited_s - slow.waited_s > 11 * 0.05 / 2, "waits in C++, before the optimizer"
    assert 0 < quick.ran_s < quick.stepped_s
