"""What needs a GPU of NVIDIA. Skipped where torch finds none."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from shells import Shell, shell_in


def has_gpu() -> bool:
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


@pytest.fixture(scope="session", autouse=True)
def gpu() -> None:
    if not has_gpu():
        pytest.skip("torch finds no GPU here")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with shell_in(tmp_path) as made:
        made.told = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}  # cuBLAS is the same each time with it
        yield made


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory, which the GPU can reach by itself."""
    with TemporaryDirectory(dir="/dev/shm", prefix="holdfast-test-") as folder:
        yield Path(folder)
