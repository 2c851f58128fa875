"""What the host of a node tells the node's own processes, the executor and the daemon. Pure.

Called by the `settings` of both, with the environment that they have read. Must not read it itself.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import SIGUSR1
from typing import NamedTuple

from holdfast.protocol.paths import NodePaths

NODE = "HOLDFAST_NODE"
ADDRESS = "HOLDFAST_NODE_ADDRESS"
"""Where other nodes reach this one; this machine alone where it is not set."""
IFNAME = "HOLDFAST_IFNAME"
"""The interface of that address; empty: the default one."""
DRIVER_URL = "HOLDFAST_DRIVER_URL"
"""One address of the driver, or several with commas between them, tried in turn."""
DRIVER_CA = "HOLDFAST_DRIVER_CA"
"""PEM of the CA that vouches for drivers at https://; without it those of the machine do."""
TOKEN_FILE = "HOLDFAST_NODE_TOKEN_FILE"
"""Read anew for each connection: whoever gives tokens may change it."""
SCRATCH = "HOLDFAST_SCRATCH"
MEMORY = "HOLDFAST_MEMORY"
PROBE_PORT = "HOLDFAST_PROBE_PORT"
"""Of the daemon; 0: none."""
EXPECTED_TASK = "HOLDFAST_EXPECTED_TASK"
"""Of the executor: JSON of `messages.Task`, for which it is warm before a driver has spoken."""
LAUNCHER = "HOLDFAST_LAUNCHER"
"""Of the executor: PID:DESCRIPTOR of a child of its own that is a launcher and has torch."""
SHOW_OUTPUT = "HOLDFAST_SHOW_OUTPUT"
"""Of the executor: not empty where its stdout is what people read, as a pod's is, and its folders
go with it: it writes there what ranks write, and tells the driver their last lines.
"""
TRACES = "HOLDFAST_TRACES"
"""Of the daemon: where spans go. redis://HOST:PORT, "off", or empty for files in the run's folder.
"""
TRACES_PASSWORD_FILE = "HOLDFAST_TRACES_PASSWORD_FILE"
"""Of the daemon: a file with that Redis' password."""
METRICS = "HOLDFAST_DAEMON_METRICS"
"""Of the daemon: HOST:PORT at which it tells Prometheus of its node; empty: nowhere."""

LEAVE_SIGNAL = SIGUSR1
"""To an executor: end, but not before nothing is wanted of its node any more."""

REQUIRED = {
    NODE: "the node's name",
    DRIVER_URL: "https://HOST:PORT, http://HOST:PORT or unix:/path/driver.sock",
    TOKEN_FILE: "a file with the node's token",
    SCRATCH: "a folder on the node's disk",
    MEMORY: "a folder in the node's tmpfs",
}
OF_TRACES = (TRACES, TRACES_PASSWORD_FILE)
NAMES = frozenset(
    {*REQUIRED, ADDRESS, IFNAME, DRIVER_CA, PROBE_PORT, EXPECTED_TASK, LAUNCHER, SHOW_OUTPUT}
    | {*OF_TRACES, METRICS}
)


class Drivers(NamedTuple):
    """How nodes reach drivers: addresses, and PEM of the CA to trust for them, or "". And where a
    driver wants their spans (see `TRACES`); in pods that Redis' password is a Secret's `password`.
    """

    urls: Sequence[str]
    ca: str = ""
    traces: str = ""
    traces_secret: str = ""

    def environment(self) -> dict[str, str]:
        """What a node's processes are told of it."""
        told = {DRIVER_URL: ",".join(self.urls), DRIVER_CA: self.ca, TRACES: self.traces}
        return {name: value for name, value in told.items() if value}


class BadSettings(ValueError):
    """The environment does not say what a node's process needs; the message names it all."""


def mistakes(environment: Mapping[str, str]) -> list[str]:
    """What is missing or wrong of what both processes need, a sentence each with the fix."""
    wrong = [
        f"{name} is not set: set it to {what}."
        for name, what in REQUIRED.items()
        if not environment.get(name)
    ]
    wrong += [
        f"{DRIVER_URL}: {url!r} is neither http://, https:// nor unix:. "
        f"Set it to {REQUIRED[DRIVER_URL]}."
        for url in urls_of(environment)
        if not url.startswith(("http://", "https://", "unix:"))
    ]
    return wrong + _mistakes_in_ca(ca_of(environment))


def ca_of(environment: Mapping[str, str]) -> str:
    """PEM of whom to trust for drivers at https://; "" where that is the machine's to say."""
    return environment.get(DRIVER_CA, "")


def _mistakes_in_ca(ca: str) -> list[str]:
    if not ca:
        return []
    from holdfast.kit.tls import trusting  # ranks know this module too, and have no use for ssl

    try:
        trusting(ca)
    except ValueError as error:
        return [f"{DRIVER_CA}: {error}. Set it to the content of the driver's ca.crt."]
    return []


def urls_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Addresses of the driver, or of all drivers of which one leads, in the order given."""
    given = environment.get(DRIVER_URL)
    return tuple(url.strip().rstrip("/") for url in given.split(",")) if given else ()


def longest_wait_s(urls: Sequence[str]) -> float:
    """Between two tries to reach a driver. One here is not overrun, and may only be starting."""
    return 0.3 if all(url.startswith("unix:") for url in urls) else 5.0


def address_of(environment: Mapping[str, str]) -> str:
    """Where other nodes reach this one."""
    return environment.get(ADDRESS) or "127.0.0.1"


def paths_of(environment: Mapping[str, str]) -> NodePaths:
    """The node's folders, in an environment without `mistakes`."""
    return NodePaths(scratch=Path(environment[SCRATCH]), memory=Path(environment[MEMORY]))
