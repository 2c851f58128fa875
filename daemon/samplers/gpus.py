"""The node's GPUs: asked of NVML where NVIDIA's driver is, read from a tree of files on an emulated
node, and nothing where there are none.

Called by the daemon's loop once a heartbeat. NVML is asked in a thread of its own: a driver whose
GPU hangs does not answer for minutes, and the heartbeat goes. Must not judge.
"""

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from holdfast.daemon.samplers.readings import Readings, counter
from holdfast.kit.logs import LazyLogger
from holdfast.protocol.messages import Gpu

ASKED_EVERY_S = 2.0
LATE_S = 10.0
"""An answer of eight GPUs takes some milliseconds; one that takes this long is said to be late."""
DRIVER = Path("/proc/driver/nvidia/version")
"""There where NVIDIA's driver is loaded."""

_log = LazyLogger()


class Unreadable(Exception):
    """The GPUs cannot be asked; the message says why."""


class Source(Protocol):
    """What tells of the GPUs of a node."""

    def read(self) -> tuple[Gpu, ...]:
        """All of them, as they are now. Raises `Unreadable`."""


class Gpus:
    """The newest answer of a source, and why there is none."""

    def __init__(self, source: Source | None) -> None:
        self._source = source
        self._asking: threading.Thread | None = None
        self._asked_s = -ASKED_EVERY_S
        self._answer: tuple[Gpu, ...] = ()
        self._why = ""

    def sample(self, now: float) -> tuple[Gpu, ...]:
        """As they were when they answered last; none while an answer is late."""
        if self._source is None:
            return ()
        if not self._is_asking() and now - self._asked_s >= ASKED_EVERY_S:
            self._asked_s = now
            self._asking = threading.Thread(target=self._ask, args=(self._source,), daemon=True)
            self._asking.start()
        if self._is_asking() and now - self._asked_s >= LATE_S:
            self._is_wrong(f"no answer for {LATE_S:g} s and more")
        return self._answer

    @property
    def unreadable(self) -> tuple[str, ...]:
        return (f"GPUs: {self._why}",) if self._why else ()

    def _is_asking(self) -> bool:
        return self._asking is not None and self._asking.is_alive()

    def _ask(self, source: Source) -> None:
        try:
            answer = source.read()
        except Unreadable as error:
            self._is_wrong(str(error))
        except Exception as error:  # noqa: BLE001 of a library that is not ours, in our own thread
            self._is_wrong(f"{type(error).__name__}: {error}")
        else:
            self._answer, self._why = answer, ""

    def _is_wrong(self, why: str) -> None:
        if why != self._why:
            _log.warning("unreadable", sampler="gpus", why=why)
        self._answer, self._why = (), why


def source(tree: Path, *, emulated: bool) -> Source | None:
    """What tells of this node's GPUs; None where it has none."""
    if tree.is_dir():
        return Tree(tree)
    return Nvml() if DRIVER.exists() and not emulated else None


class Tree:
    """A folder a GPU, by its number, with a file a figure: what is not there is not known."""

    def __init__(self, root: Path) -> None:
        self._root, self._files = root, Readings("gpus")

    def read(self) -> tuple[Gpu, ...]:
        """All of them. Raises `Unreadable`, with the files that cannot be read."""
        folders = (path for path in self._root.glob("*") if path.name.isdecimal())
        gpus = tuple(self._gpu(folder) for folder in sorted(folders, key=lambda at: int(at.name)))
        if wrong := self._files.unreadable_now:
            raise Unreadable("; ".join(wrong))
        return gpus

    def _gpu(self, folder: Path) -> Gpu:
        return Gpu(
            index=int(folder.name),
            lost=self._is(folder / "lost"),
            celsius=self._files.number(folder / "celsius"),
            slowed_by_heat=self._is(folder / "slowed_by_heat"),
            uncorrected_errors=self._files.number(folder / "uncorrected_errors"),
            remap_failed=self._is(folder / "remap_failed"),
            recovery=self._files.text(folder / "recovery") or "",
            lanes=self._files.number(folder / "lanes"),
            memory_bytes=self._files.number(folder / "memory_bytes"),
        )

    def _is(self, file: Path) -> bool:
        return bool(self._files.parsed(file, counter))


class Nvml:
    """NVIDIA's management library, by `nvidia-ml-py`, which is imported at the first question."""

    def __init__(self) -> None:
        self._nvml: Any = None

    def read(self) -> tuple[Gpu, ...]:
        """All of them. Raises `Unreadable` where library or driver do not answer."""
        nvml = self._begun()
        try:
            return tuple(self._gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
        except nvml.NVMLError as error:
            self._nvml = None  # begin anew: the driver may have been loaded again
            with suppress(nvml.NVMLError):  # it may be gone, and then it counts nobody
                nvml.nvmlShutdown()
            raise Unreadable(f"NVML says {error}") from error

    def _begun(self) -> Any:
        if self._nvml is not None:
            return self._nvml
        try:
            import pynvml
        except ImportError as error:
            raise Unreadable("nvidia-ml-py is not installed: pip install holdfast[gpu]") from error
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise Unreadable(f"NVML says {error}") from error
        self._nvml = pynvml
        return pynvml

    def _gpu(self, nvml: Any, index: int) -> Gpu:
        """Each figure that this GPU has; one that has fallen off the bus has none."""
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            return _figures(nvml, index, handle)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_GPU_IS_LOST:
                return Gpu(index=index, lost=True)
            if error.value == nvml.NVML_ERROR_RESET_REQUIRED:
                return Gpu(index=index, recovery=RECOVERIES[1])
            raise


RECOVERIES = (
    "",
    "reset",
    "reboot",
    "drain its peers",
    "drain and reset",
    "recover its IMEX domain",
    "reset its bus",
    "reboot the system",
)
"""What NVML wants done about a GPU: NVML_GPU_RECOVERY_ACTION_* of nvml.h, by number."""


def _figures(nvml: Any, index: int, handle: Any) -> Gpu:
    def ask(name: str, *more: Any) -> Any:
        try:
            return getattr(nvml, name)(handle, *more)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
            return None  # this GPU, or this driver, has it not

    heat = nvml.nvmlClocksEventReasonSwThermalSlowdown | nvml.nvmlClocksEventReasonHwThermalSlowdown
    memory = ask("nvmlDeviceGetMemoryInfo")
    remapped = ask("nvmlDeviceGetRemappedRows")
    errors = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    return Gpu(
        index=index,
        celsius=ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        slowed_by_heat=bool((ask("nvmlDeviceGetCurrentClocksEventReasons") or 0) & heat),
        uncorrected_errors=ask("nvmlDeviceGetTotalEccErrors", *errors),
        remap_failed=bool(remapped is not None and remapped[3]),
        recovery=_recovery(
            ask("nvmlDeviceGetFieldValues", [nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
        ),
        lanes=ask("nvmlDeviceGetCurrPcieLinkWidth"),
        memory_bytes=memory.used if memory is not None else None,
    )


def _recovery(values: Any) -> str:
    """ "" where nothing is to be done, or this driver does not say."""
    if values is None or values[0].nvmlReturn != 0:
        return ""
    number = values[0].value.uiVal
    return RECOVERIES[number] if number < len(RECOVERIES) else f"recovery action {number}"
