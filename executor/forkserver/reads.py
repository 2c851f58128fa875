"""Which variables of the environment an import may have read: these must be the same in a run that
is to have what was imported.

Called by `main` before the first import of what is not ours: what the driver and its libraries read
is the same for every run, or is read when a driver begins.
"""

import os

from holdfast.protocol.forkserving import MARKS_HERE

PREFIXES = (
    *("LD_", "GLIBC_", "MALLOC_", "LC_", "LANG", "TZ", "PYTHON", "OPENSSL_"),
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "NUMEXPR_", "ATEN_", "C10_", "DNNL_"),
    *("ONEDNN_", "XNNPACK_", "TORCH", "PYTORCH", "CUDA", "CUBLAS", "CUDNN", "NVIDIA_", "NCCL_"),
    *("GLOO_", "TP_", "KINETO_", "HIP_", "HSA_", "ROC", "MIOPEN_", "XPU_", "ZE_", "SYCL_", "NPY_"),
)
"""Read by C code when a library is loaded, where no Python sees it."""
LIBRARIES = ("PROMETHEUS_", "prometheus_", "OTEL_", "PYDANTIC_", "WEBSOCKETS_")
"""Read by libraries of ours before `watch`; a script that imports them gets what was imported."""
OURS = frozenset({"OPENBLAS_NUM_THREADS", "PYTHONUNBUFFERED", MARKS_HERE})
"""The first is forced on launchers and taken from ranks; the second each rank heeds by itself; the
third only a fork server has."""

seen: set[str] = set()
"""Names that were asked for in `os.environ` since `watch`."""


def watch() -> None:
    """Note from now on what is read."""
    os.environ.__class__ = _Watched


def watch_no_more() -> None:
    os.environ.__class__ = os._Environ


def matters(name: str) -> bool:
    """Whether an import may have read it."""
    return name not in OURS and (name in seen or name.startswith(PREFIXES + LIBRARIES))


class _Watched(os._Environ):  # type: ignore[type-arg]
    def __getitem__(self, name: str) -> str:
        seen.add(name)
        return str(super().__getitem__(name))
