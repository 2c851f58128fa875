"""How the benchmark's driver is run: alone with a file as its journal, or as `shipped` has it.

Chosen by `benchmark`; `stage` installs it, `operator` starts by it.
"""

from collections.abc import Mapping
from typing import NamedTuple, Self

from holdfast.lab.emulator.nodes import DRIVER_URL
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.protocol.paths import RunPaths


class Start(NamedTuple):
    """What a driver is started with besides, and the address of its journal ("": in its state).

    Without `environment` it has ours.
    """

    words: list[str]
    journal: str = ""
    environment: Mapping[str, str] | None = None


class Plain:
    """SQLite, no TLS, and nobody to share with."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass

    def install(self, plane: ControlPlane) -> None:
        """The rights that only this way needs."""

    def reached(self, state: RunPaths) -> list[str]:
        """What emulated nodes are told, that they reach the driver with this state."""
        return ["--driver-socket", str(state.socket)]

    def start(self) -> Start:
        """Of a driver whose journal is new."""
        return Start(["--driver-urls", DRIVER_URL])
