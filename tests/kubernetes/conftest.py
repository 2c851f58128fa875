"""A real control plane for the tests that need one, started once for all of them."""

from collections.abc import Iterator

import pytest

from holdfast.lab.kubernetes.build import NotHere
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.lab.kubernetes.programs import command


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Stock Kubernetes on this machine. Tests share it: each makes its own namespace and names."""
    try:
        command("certificate")
    except NotHere as missing:
        pytest.skip(str(missing))
    with ControlPlane(tmp_path_factory.mktemp("kubernetes")) as running:
        yield running
