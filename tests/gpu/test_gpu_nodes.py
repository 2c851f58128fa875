"""What a daemon reads of a real GPU, and what the tests of a node find on one."""

import subprocess
import sys
from pathlib import Path

import pytest
from ports import free_port

from holdfast.daemon.samplers import gpus, ras_answer
from holdfast.daemon.samplers.ras import Ras
from holdfast.kit.clock import SystemClock
from holdfast.protocol.messages import DiagnosticOrder

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.gpu, pytest.mark.torch]


def test_the_driver_tells_of_the_gpu(tmp_path: Path) -> None:
    source = gpus.source(tmp_path / "none", emulated=False)
    assert isinstance(source, gpus.Nvml)
    found = source.read()
    print(found)
    assert len(found) == torch.cuda.device_count()
    first = found[0]
    assert (first.lost, first.remap_failed, first.recovery) == (False, False, "")
    assert first.celsius is not None
    assert 10 < first.celsius < 100
    assert first.uncorrected_errors == 0
    assert first.lanes is None or first.lanes in (1, 2, 4, 8, 16)


def test_the_product_of_a_gpu_is_right_to_the_bit_and_its_speed_is_told() -> None:
    from holdfast.diagnostics.probes import compute

    found = compute.run(DiagnosticOrder(id="1", test="compute"), "node-1")
    print(found)
    assert (found.ok, found.wrong) == (True, False)
    assert found.value is not None
    assert found.value > 1_000, "GFLOP/s: a GPU, no CPU"


def test_a_gpu_copies_its_memory_and_that_of_its_host_and_its_speed_is_told() -> None:
    from holdfast.diagnostics.probes import gpu_host, gpu_memory

    within = gpu_memory.run(DiagnosticOrder(id="1", test="gpu_memory"), "node-1")
    across = gpu_host.run(DiagnosticOrder(id="1", test="gpu_host"), "node-1")
    print(within, across)
    for found in (within, across):
        assert (found.ok, found.wrong) == (True, False), found.detail
        assert found.value is not None
        assert "cuda:" in found.detail
    assert within.value > 100, "GB/s: the memory of a GPU, no bus"
    assert 1 < across.value < within.value, "GB/s: a bus, from pinned memory"


@pytest.mark.parametrize("name", ["gpu_memory", "gpu_host"])
def test_a_gpu_that_another_process_has_filled_is_not_called_bad(name: str) -> None:
    from importlib import import_module

    free, _ = torch.cuda.mem_get_info(0)
    taken = torch.empty(free - (64 << 20), dtype=torch.uint8, device="cuda:0")
    probe = import_module(f"holdfast.diagnostics.probes.{name}")
    found = probe.run(DiagnosticOrder(id="1", test=name), "node-1")
    del taken
    torch.cuda.empty_cache()
    print(found)
    assert found.ok is None
    assert "MiB of the memory of cuda:0 are free" in found.detail


ALLREDUCE = """
import msgspec, sys
from holdfast.diagnostics.probes import allreduce
from holdfast.protocol.messages import DiagnosticOrder, Rendezvous

there = Rendezvous(address="127.0.0.1", port=int(sys.argv[1]))
order = DiagnosticOrder(id="1", test="allreduce", members=("node-1",), rendezvous=there)
print(msgspec.json.encode(allreduce.run(order, "node-1")).decode())
"""

STANDS = """
import sys, torch, torch.distributed as dist

dist.init_process_group("nccl", init_method="tcp://127.0.0.1:" + sys.argv[1], rank=0, world_size=1)
dist.all_reduce(torch.ones(4, device="cuda"))
torch.cuda.synchronize()
print("stands", flush=True)
sys.stdin.read()
"""


def test_an_all_reduce_of_one_gpu_by_nccl() -> None:
    words = [sys.executable, "-c", ALLREDUCE, str(free_port())]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=100)
    print(ended.stdout, ended.stderr)
    assert '"ok":true' in ended.stdout


def test_nccl_answers_for_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    address = ("127.0.0.1", free_port())  # its own port may be another job's here
    monkeypatch.setenv("NCCL_RAS_ADDR", "{}:{}".format(*address))
    words = [sys.executable, "-c", STANDS, str(free_port())]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as rank:
        assert rank.stdout is not None
        assert rank.stdin is not None
        assert rank.stdout.readline() == "stands\n"
        data = Ras(SystemClock(), address).ask()
        rank.stdin.close()
    print(data)
    assert data is not None
    told = ras_answer.told(ras_answer.read(data), "job", 1, {rank.pid: 0})
    print(told)
    assert (told.communicators, told.world, told.ranks) == (1, 1, ())
