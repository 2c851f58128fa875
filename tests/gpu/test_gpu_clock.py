"""The clock of a real GPU: what it waited for, whose GPU is slower, and graphs."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import stream_group
from ports import free_port
from shells import Shell
from waiting import eventually

torch = pytest.importorskip("torch")

from holdfast.telemetry.cuda import CudaMarks  # noqa: E402 - after the check for torch
from holdfast.telemetry.gpuclock import GpuClock  # noqa: E402
from holdfast.telemetry.recorder import Recorder  # noqa: E402
from holdfast.telemetry.ring import RingWriter  # noqa: E402
from holdfast.telemetry.trace.ring import SpanReader, SpanWriter  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.torch]

HELPERS = Path(stream_group.__file__).parent
CYCLES_A_MS = 1_500_000
"""About a millisecond of an H100, and more where its clock is lower."""


def test_a_step_and_its_wait_are_timed_as_the_gpu_runs_them() -> None:
    clock = GpuClock(CudaMarks())
    torch.cuda.synchronize()
    took: list[float] = []
    first_ns = 0
    for step in range(1, 6):
        begun = time.perf_counter()
        torch.cuda._sleep(10 * CYCLES_A_MS)
        begin = clock.waits()
        torch.cuda._sleep(30 * CYCLES_A_MS)
        clock.waited(begin)
        clock.stepped(step, 0)
        torch.cuda.synchronize()
        took.append(time.perf_counter() - begun)
        first_ns = first_ns or clock.at_step_ns[0]
    clock.stepped(6, 0)
    steps_ns, _, waited_ns, paused_ns = clock.at_step_ns
    print(took, clock.at_step_ns)
    assert (clock.step, paused_ns) == (5, 0)
    assert (steps_ns - first_ns) / 1e9 == pytest.approx(sum(took[1:]), rel=0.05)
    assert waited_ns / (steps_ns - first_ns) == pytest.approx(0.75, abs=0.02)


def test_what_marks_cost() -> None:
    clock = GpuClock(CudaMarks())
    x = torch.ones(64, 64, device="cuda")
    for what in (lambda: None, lambda: clock.waited(clock.waits()), lambda: clock.enqueued()):
        for _ in range(2):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            for step in range(1, 301):
                x.add_(1)
                what()
                if step % 10 == 0:
                    clock.stepped(step, 0)
            took = time.perf_counter() - begun
        print(f"{took / 300 * 1e6:.2f} us")


def test_spans_are_what_the_gpu_did_when(tmp_path: Path) -> None:
    spans = tmp_path / "spans"
    writer = SpanWriter(spans, rank=0, epoch=1)
    recorder = Recorder(RingWriter(tmp_path / "ring", rank=0, epoch=1), writer)
    group = recorder.new_group([0, 1])
    assert group is not None
    group.followed = False
    torch.cuda.synchronize()
    for number in range(8):
        if number == 2:
            torch.cuda.synchronize()  # as a script does that looks at a loss, now and then
        with recorder.phase("forward"):
            torch.cuda._sleep(8 * CYCLES_A_MS)
        group.enqueue(1, 0)
        torch.cuda._sleep(4 * CYCLES_A_MS)
        begin = recorder.gpu.waits()
        torch.cuda._sleep(16 * CYCLES_A_MS)
        recorder.gpu.waited(begin)
        recorder.optimizes()
        torch.cuda._sleep(4 * CYCLES_A_MS)
        recorder.stepped()
    torch.cuda.synchronize()
    ended_ns = time.monotonic_ns()
    recorder.stepped()
    found = [each for each in SpanReader(spans).read() if 3 <= each.step <= 8]
    steps = [each for each in found if each.kind == "step"]
    assert len(steps) == 6
    last = steps[-1]
    print([(each.kind, each.took_ns / 1e6, each.waited_ns / 1e6) for each in found])
    assert abs(last.began_ns + last.took_ns - ended_ns) < 2_000_000, "on this machine's clock"
    for kind, of_32 in (("forward", 8), ("collective", 20), ("optimizer", 4)):
        for each in found:
            if each.kind == kind:
                assert each.took_ns / last.took_ns == pytest.approx(of_32 / 32, abs=0.02), kind
    waited = [each.waited_ns / each.took_ns for each in steps]
    assert waited == pytest.approx([0.5] * 6, abs=0.02)


ALONE = """
import sys, time, torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1)).cuda()
KIND = sys.argv[1]
if KIND == "ddp":
    net = DistributedDataParallel(net)
if KIND == "fsdp":
    from torch.distributed.fsdp import fully_shard
    for each in net:
        if isinstance(each, nn.Linear):
            fully_shard(each)
    fully_shard(net)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, capturable=True)
x = torch.randn(256, 512, device="cuda")


def step():
    optimizer.zero_grad(set_to_none=False)
    loss = net(x).square().mean()
    loss.backward()
    if KIND not in ("ddp", "fsdp"):
        for each in net.parameters():
            dist.all_reduce(each.grad)
    optimizer.step()
    return loss


if KIND == "graph":
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    for _ in range(300):
        graph.replay()
    for _ in range(300):
        loss = step()
else:
    for number in range(1501):
        loss = step()
        if number % 100 == 0:
            loss.item()
        if number == 500:
            begun = time.perf_counter()
    print(f"a step takes {(time.perf_counter() - begun) * 1e3:.1f} us")
print("loss", loss.item(), flush=True)
from holdfast.telemetry import current
if current.recorder is not None:
    gpu = current.recorder.gpu
    print("known", gpu.step, *gpu.at_step_ns, gpu._is_broken, current.recorder._partial, flush=True)
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("kind", ["plain", "ddp", "fsdp", "graph"])
def test_a_script_with_nccl_is_timed_and_computes_the_same(shell: Shell, kind: str) -> None:
    script = shell.script("train.py", ALONE)
    env = {**os.environ, **shell.told, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    env |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    words = [sys.executable, str(script or shell.folder / "train.py"), kind]
    bare = subprocess.run(words, env=env, capture_output=True, text=True, timeout=200)
    assert bare.returncode == 0, bare.stderr
    ended = shell.holdfast("run", "-n", "1", "train.py", kind)
    print(bare.stdout, ended.stdout, ended.stderr)
    assert ended.returncode == 0, ended.stderr
    loss = re.search(r"^loss (\S+)$", bare.stdout, re.MULTILINE)
    assert loss is not None
    assert f"loss {loss[1]}\n" in ended.stdout
    known = re.search(r"^known (\d+) (\d+) \d+ (\d+) (\d+) (\w+)", ended.stdout, re.MULTILINE)
    assert known is not None
    assert known[5] == "False", "its clock has not failed"
    assert int(known[1]) > 100, "of hundreds of steps"
    least_ns = 1 if kind in ("plain", "graph") else 0  # one rank of FSDP2 has nothing to gather
    assert least_ns <= int(known[3]) < int(known[2]), "and what it waited in them"


PAIR = """
import os, sys, time, torch
sys.path.insert(0, HELPERS)
from pathlib import Path
import torch.distributed as dist
import stream_group

rank, here = int(os.environ["RANK"]), Path(__file__).parent
stream_group.init(rank, 2, Path(MEMORY))
net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)]).cuda()
for each in net.parameters():
    dist.all_reduce(each.data)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
x = torch.randn(256, 1024, device="cuda")
step, last = 0, 1 << 60
while step < last:
    step += 1
    if (here / "end").exists() and last == 1 << 60:
        if rank == 0:
            (here / "last.part").write_text(str(step + 200))
            (here / "last.part").rename(here / "last")
        if (here / "last").exists():
            last = int((here / "last").read_text())
    optimizer.zero_grad()
    net(x).square().mean().backward()
    torch.cuda._sleep(2 * CYCLES)
    if rank == 1 and (here / "slow").exists():
        time.sleep(0.01)  # they share a GPU: with more to do on it, one would slow the other, too
    for each in net.parameters():
        dist.all_reduce(each.grad)
    optimizer.step()
    if step % 10 == 0:  # what the GPU did is read as the thread goes on
        torch.cuda.synchronize()
    if step % 100 == 0 and rank == 0:
        with open(here / "marks", "a") as marks:
            print(time.monotonic(), file=marks)
torch.cuda.synchronize()
same = hash(tuple(each.double().sum().item() for each in net.parameters()))
print("same", rank, same, flush=True)
"""


TIMED = """
import sys, torch, torch.distributed as dist
from pathlib import Path
import stream_group
from holdfast.telemetry import current
from holdfast.telemetry.recorder import Recorder
from holdfast.telemetry.ring import RingWriter

rank, folder = int(sys.argv[1]), Path(sys.argv[2])
recorder = current.recorder = Recorder(RingWriter(folder / f"ring{rank}", rank=rank, epoch=1))
stream_group.init(rank, 2, folder)
net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)]).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
x = torch.randn(256, 1024, device="cuda")
for more in (0, 0, 8):
    before, first = recorder.gpu.at_step_ns, recorder.gpu.step
    for step in range(200):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        torch.cuda._sleep((5 + more * rank) * CYCLES)
        for each in net.parameters():
            dist.all_reduce(each.grad)
        optimizer.step()
        recorder.stepped()
        if step % 20 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    took, _, waited, _ = (b - a for a, b in zip(before, recorder.gpu.at_step_ns, strict=True))
    steps = recorder.gpu.step - first
    print(more, waited / steps / 1e6, (took - waited) / steps / 1e6, flush=True)
"""


def test_who_waits_on_the_gpu_and_who_is_waited_for_are_told_apart(memory: Path) -> None:
    text = TIMED.replace("CYCLES", str(CYCLES_A_MS))
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", text, str(rank), str(memory)], stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    try:
        told = [each.communicate(timeout=100)[0] for each in ranks]
    finally:
        for each in ranks:
            each.kill()
            each.wait()
    print(told)
    (_, alike_0, slow_0), (_, alike_1, slow_1) = (
        [[float(word) for word in line.split()] for line in of.splitlines()] for of in told
    )
    assert alike_0[2] == pytest.approx(alike_1[2], rel=0.1), "own parts, in ms a step"
    assert slow_1[2] > 1.5 * slow_0[2]
    assert slow_0[2] == pytest.approx(alike_0[2], rel=0.2), "who waits takes no longer itself"
    assert slow_1[1] < slow_0[1], "and it is the other that waits"


@pytest.mark.slow
@pytest.mark.cluster
def test_the_rank_whose_gpu_is_slower_is_told(shell: Shell, memory: Path) -> None:
    text = PAIR.replace("HELPERS", repr(str(HELPERS))).replace("CYCLES", str(CYCLES_A_MS))
    text = text.replace("MEMORY", repr(str(memory)))
    shell.script("train.py", text)
    running = shell.start("run", "-n", "2", "train.py")

    def status() -> str:
        return shell.holdfast("status").stdout

    try:
        eventually(lambda: heard_s(shell) >= 80, "it is known what is usual", within_s=150)
        assert "holds its peers up" not in status()
        (shell.folder / "slow").touch()
        begun = time.monotonic()
        eventually(lambda: "holds its peers up" in status(), "it is told", within_s=90)
        print(f"told after {time.monotonic() - begun:.0f} s", status())
        assert "rank 1 on" in status()
        assert "its GPU takes longer" in status()
    finally:
        print(shell.holdfast("ranks", "--json").stdout)
        (shell.folder / "end").touch()
        output, said = running.communicate(timeout=60.0)
        print(output[-2000:], said[-2000:])
    sums = re.findall(r"same \d (-?\d+)", output)
    assert len(sums) == 2
    assert sums[0] == sums[1], "they really reduced together"


def heard_s(shell: Shell) -> float:
    """For how long it has trained."""
    marks = shell.folder / "marks"
    times = [float(each) for each in marks.read_text().split()] if marks.exists() else []
    return times[-1] - times[0] if times else 0.0
