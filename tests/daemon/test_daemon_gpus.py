"""GPUs by either source: NVML, in a stand-in for the library, and the files of an emulated node."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from waiting import eventually

from holdfast.daemon.samplers import gpus
from holdfast.daemon.samplers.gpus import (
    ASKED_EVERY_S,
    LATE_S,
    Gpus,
    Nvml,
    Source,
    Tree,
    Unreadable,
)
from holdfast.lab.emulator.gpus import WELL, tell
from holdfast.protocol.messages import Gpu


class Error(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


class NotSupported(Error):
    pass


LIBRARY_NOT_FOUND, LOST = 12, 15


def library(figures: dict[str, Any], *, absent: bool = False) -> ModuleType:
    """As much of pynvml as is asked for; its names and numbers are those of 13.615.71."""

    def ask(name: str) -> Callable[..., Any]:
        def answer(*_: Any) -> Any:
            if name not in figures:
                raise NotSupported(3)
            return figures[name]

        return answer

    def handle(index: int) -> int:
        if figures.get("lost"):
            raise Error(LOST)
        return index

    def start() -> None:
        if absent:
            raise Error(LIBRARY_NOT_FOUND)

    recovery = [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=figures.get("action")))]
    nvml: Any = ModuleType("pynvml")
    nvml.__dict__.update(
        NVMLError=Error,
        NVMLError_NotSupported=NotSupported,
        NVMLError_FunctionNotFound=NotSupported,
        NVML_ERROR_GPU_IS_LOST=LOST,
        NVML_ERROR_RESET_REQUIRED=16,
        NVML_MEMORY_ERROR_TYPE_UNCORRECTED=1,
        NVML_VOLATILE_ECC=0,
        NVML_TEMPERATURE_GPU=0,
        NVML_FI_DEV_GET_GPU_RECOVERY_ACTION=230,
        nvmlClocksEventReasonSwThermalSlowdown=0x20,
        nvmlClocksEventReasonHwThermalSlowdown=0x40,
        nvmlInit=start,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=handle,
        nvmlDeviceGetTemperature=ask("celsius"),
        nvmlDeviceGetTotalEccErrors=ask("errors"),
        nvmlDeviceGetRemappedRows=ask("rows"),
        nvmlDeviceGetCurrentClocksEventReasons=ask("reasons"),
        nvmlDeviceGetCurrPcieLinkWidth=ask("lanes"),
        nvmlDeviceGetMemoryInfo=ask("memory"),
        nvmlDeviceGetFieldValues=lambda *_: recovery if "action" in figures else ask("action")(),
    )
    return nvml


Make = Callable[[dict[str, Any], dict[str, int | str]], Source]


@pytest.fixture(params=["NVML", "files"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A source of one GPU, from what NVML says of it, or from the same as files."""

    def made(nvml: dict[str, Any], files: dict[str, int | str]) -> Source:
        if request.param == "files":
            tell(tmp_path, 0, **files)
            return Tree(tmp_path / "gpus")
        monkeypatch.setitem(sys.modules, "pynvml", library(nvml))
        return Nvml()

    return made


HEALTHY = {
    "celsius": 42,
    "errors": 0,
    "rows": (0, 0, 0, 0),
    "reasons": 0x1,
    "action": 0,
    "lanes": 16,
    "memory": SimpleNamespace(total=80 << 30, used=3 << 30),
}
SAID: dict[str, tuple[dict[str, Any], dict[str, int | str], Gpu]] = {
    "well": (
        HEALTHY,
        WELL,
        Gpu(index=0, celsius=42, uncorrected_errors=0, lanes=16, memory_bytes=3 << 30),
    ),
    "narrow": ({"lanes": 4}, {"lanes": 4}, Gpu(index=0, lanes=4)),
    "a GPU that tells nothing": ({}, {"lost": 0}, Gpu(index=0)),
    "lost": ({"lost": True}, {"lost": 1}, Gpu(index=0, lost=True)),
    "hot": (
        {"celsius": 93, "reasons": 0x41},
        {"celsius": 93, "slowed_by_heat": 1},
        Gpu(index=0, celsius=93, slowed_by_heat=True),
    ),
    "memory": (
        {"errors": 3, "rows": (1, 2, 0, 1)},
        {"uncorrected_errors": 3, "remap_failed": 1},
        Gpu(index=0, uncorrected_errors=3, remap_failed=True),
    ),
    "to be reset": ({"action": 1}, {"recovery": "reset"}, Gpu(index=0, recovery="reset")),
}


@pytest.mark.parametrize(("nvml", "files", "gpu"), SAID.values(), ids=SAID)
def test_both_sources_say_the_same_of_a_gpu(
    make: Make, nvml: dict[str, Any], files: dict[str, int | str], gpu: Gpu
) -> None:
    assert make(nvml, files).read() == (gpu,)


def test_a_library_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(Unreadable, match="nvidia-ml-py is not installed"):
        Nvml().read()
    monkeypatch.setitem(sys.modules, "pynvml", library({}, absent=True))
    with pytest.raises(Unreadable, match="NVML says error 12"):
        Nvml().read()


@pytest.mark.parametrize("content", [b"\xff\xfe", b"9" * 5_000, b"-1"])
def test_a_figure_that_is_none_is_said_and_no_gpu_is_told(tmp_path: Path, content: bytes) -> None:
    tell(tmp_path, 0, **WELL)
    (tmp_path / "gpus/0/celsius").write_bytes(content)
    with pytest.raises(Unreadable, match="celsius"):
        Tree(tmp_path / "gpus").read()


def test_a_driver_that_does_not_answer_holds_nobody_up_and_is_asked_no_second_time() -> None:
    asked, free = [], threading.Event()

    class Hangs:
        def read(self) -> tuple[Gpu, ...]:
            asked.append(1)
            free.wait()
            return (Gpu(index=0),)

    sampler = Gpus(Hangs())
    try:
        assert sampler.sample(0.0) == ()
        assert (sampler.sample(LATE_S), sampler.unreadable) == (
            (),
            (f"GPUs: no answer for {LATE_S:g} s and more",),
        )
        assert len(asked) == 1
    finally:
        free.set()
    eventually(lambda: sampler.sample(LATE_S) == (Gpu(index=0),), "it answers at last")
    assert sampler.unreadable == ()


def test_a_source_that_breaks_is_said_and_its_old_answer_is_gone() -> None:
    answers: list[tuple[Gpu, ...]] = [(Gpu(index=0),)]

    class Breaks:
        def read(self) -> tuple[Gpu, ...]:
            return answers.pop()

    sampler = Gpus(Breaks())
    eventually(lambda: sampler.sample(0.0) == (Gpu(index=0),), "it answers")
    why = ("GPUs: IndexError: pop from empty list",)
    eventually(lambda: (sampler.sample(ASKED_EVERY_S), sampler.unreadable) == ((), why), "it says")


def test_a_library_that_is_begun_anew_was_ended_before(monkeypatch: pytest.MonkeyPatch) -> None:
    open_count = []

    def fails() -> int:
        raise Error(LOST)

    def end() -> None:
        open_count.pop()
        raise Error(LOST)  # as of a driver that has been taken away: it is begun anew all the same

    nvml: Any = library({})
    nvml.__dict__.update(
        nvmlInit=lambda: open_count.append(1), nvmlDeviceGetCount=fails, nvmlShutdown=end
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    source = Nvml()
    for _ in range(2):
        with pytest.raises(Unreadable, match="NVML says error 15"):
            source.read()
        assert open_count == []


def test_a_node_without_gpus_has_nothing_to_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "DRIVER", tmp_path / "none")
    assert gpus.source(tmp_path / "gpus", emulated=False) is None
    monkeypatch.setattr(gpus, "DRIVER", tmp_path)
    assert isinstance(gpus.source(tmp_path / "gpus", emulated=False), Nvml)
    assert gpus.source(tmp_path / "gpus", emulated=True) is None
    sampler = Gpus(None)
    assert (sampler.sample(1.0), sampler.unreadable) == ((), ())
