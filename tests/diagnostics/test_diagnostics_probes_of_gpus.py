"""Copies that have to do with a GPU, on a CPU: the device is handed in."""

import subprocess
import sys

import pytest
from waiting import DEADLINE_S

from holdfast.diagnostics.probes import Measured, gpu_host, gpu_memory, gpus
from holdfast.protocol.messages import DiagnosticOrder

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

BOTH = pytest.mark.parametrize("probe", [gpu_memory, gpu_host])
MIB = 1 << 20


@BOTH
def test_a_device_copies_and_its_speed_is_told(probe: object) -> None:
    found = probe.on_device(torch.device("cpu"), MIB, 2)  # type: ignore[attr-defined]
    assert (found.ok, found.wrong) == (True, False)
    assert found.value > 0.01
    assert "cpu: " in found.detail


@BOTH
def test_a_device_that_is_short_of_memory_is_not_tested(probe: object) -> None:
    found = probe.on_device(torch.device("cpu"), 1 << 50, 2)  # type: ignore[attr-defined]
    assert found.ok is None
    assert "MiB of the memory of cpu are free, and " in found.detail


@BOTH
def test_a_copy_with_one_wrong_bit_is_found(probe: object, monkeypatch: pytest.MonkeyPatch) -> None:
    good = gpus.speed

    def faulty(target, source, repeats):  # type: ignore[no-untyped-def]
        value = good(target, source, repeats)
        target[7] = -1
        return value

    monkeypatch.setattr(gpus, "speed", faulty)
    found = probe.on_device(torch.device("cpu"), MIB, 1)  # type: ignore[attr-defined]
    assert (found.ok, found.wrong) == (False, True)


def test_the_slowest_counts_and_what_is_wrong_or_unknown_before_it() -> None:
    fast, slow = Measured(ok=True, value=9.0), Measured(ok=True, value=2.0)
    unknown, wrong = Measured(ok=None), Measured(ok=False, wrong=True)
    assert gpus.worst([fast, slow]) == slow
    assert gpus.worst([slow, unknown]) == unknown
    assert gpus.worst([unknown, wrong, slow]) == wrong
    assert gpus.worst([]) == Measured(ok=True, detail=gpus.NONE)


def test_where_torch_gives_up_the_gpu_is_unknown_and_not_bad() -> None:
    def short(device: object, repeats: int) -> Measured:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory.\nmore")

    found = gpus._tried(torch.device("cuda", 1), short, 1)
    assert (found.ok, found.detail) == (None, "cuda:1: CUDA out of memory.")


WITHOUT = """
import sys
from pathlib import Path
from holdfast.diagnostics.probes import gpus
gpus.DRIVERS = ()
from holdfast.diagnostics.probes import gpu_memory, gpu_host
from holdfast.protocol.messages import DiagnosticOrder
for probe in (gpu_memory, gpu_host):
    print(probe.run(DiagnosticOrder(id="d", test=""), "n1").detail)
print("torch" in sys.modules)
"""


@pytest.mark.skipif(gpus.there(), reason="there is a GPU")
def test_without_a_gpu_nothing_is_measured_and_torch_is_not_loaded() -> None:
    words = [sys.executable, "-c", WITHOUT]
    said = subprocess.check_output(words, text=True, timeout=DEADLINE_S).splitlines()
    assert said == [gpus.NONE, gpus.NONE, "False"]


def test_no_gpu_that_torch_sees_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "there", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = gpu_memory.run(DiagnosticOrder(id="d", test="gpu_memory"), "n1")
    assert found == Measured(ok=True, detail=gpus.NONE)
