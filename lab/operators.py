"""The drivers of a laboratory on Kubernetes: one, or two of which one leads. Pure.

Used by `on_kubernetes`. Each has a state of its own, as pods have; nodes reach each at an address
of the switch, and are told all of them.
"""

from typing import NamedTuple

from holdfast.lab.emulator.nodes import DRIVER_URL, SWITCH_ADDRESS
from holdfast.protocol.paths import RunPaths

LEASE = ("holdfast", "holdfast-driver")
"""Namespace and name of the one by which drivers that share a journal say who leads."""
SECOND = "driver-2"
SECOND_PORT = 7481
"""Of the switch; behind it is the second driver."""


class Operator(NamedTuple):
    """`name`: of its process, and what others are told of who leads. `url`: where nodes reach it.

    `port`: where it listens on this machine; 0 for one that nodes reach by its socket.
    """

    name: str
    run: RunPaths
    url: str
    port: int = 0

    @property
    def way(self) -> list[str]:
        """What the nodes are told, that they have a way to it (see `kubelet.options`)."""
        return ["--way", f"{SECOND_PORT}=127.0.0.1:{self.port}"] if self.port else []

    def words(self, journal: str, urls: str) -> list[str]:
        """What it is told besides where the API server is. Without `journal` it has its own."""
        words = ["--driver-urls", urls, "--listen", f"127.0.0.1:{self.port}"]
        if journal:
            words += ["--journal", journal, "--standby", "--lease", "/".join(LEASE)]
            words += ["--name", self.name, "--advertise", self.url]
        return words


def operators(run: RunPaths, second_port: int) -> list[Operator]:
    """One, whose state is the laboratory's folder, and another where there is a port for it."""
    first = Operator("driver", run, DRIVER_URL)
    if not second_port:
        return [first]
    url = f"http://{SWITCH_ADDRESS}:{SECOND_PORT}"
    return [first, Operator(SECOND, RunPaths(run.root / SECOND), url, second_port)]
