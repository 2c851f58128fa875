"""`python -m holdfast.lab.emulator.kubelet.main`: emulated nodes that join a real Kubernetes.

Keeps three processes up: the emulated cluster, the way out to the API server, and the kubelet of
all nodes. They end with it, however it ends, and leave nothing.
"""

import argparse
import os
import secrets
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from holdfast.keeper import state as states
from holdfast.keeper.processes import RUN_MARK
from holdfast.kit.files import private_folder
from holdfast.kit.supervise import Child, DoesNotStayUp, Lifeline, end_all
from holdfast.lab.emulator.kubelet import options
from holdfast.protocol import exitcodes

HERE = "holdfast.lab.emulator.kubelet"
LOOK_S = 0.05


def main(arguments: Sequence[str] | None = None) -> int:
    """Keep the nodes until told to end; an exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    given = options.read(words)
    if given.serve:
        from holdfast.lab.emulator.kubelet import serve

        serve.main(given)
        return exitcodes.OK
    private_folder(given.state)
    lifeline = Lifeline()
    children: list[Child] = []
    try:
        ways = _children(given, words, lifeline)
        _look_after(ways, children, given.state, _ends(given.die_with_fd))
    except (DoesNotStayUp, BadKubeconfig) as failure:
        sys.stderr.write(f"{failure}\n")
        return exitcodes.FAILED
    finally:
        end_all(children, lifeline)
    return exitcodes.OK


class BadKubeconfig(Exception):
    """The API server cannot be learned from it; the message says why."""


def _look_after(ways: list[Child], up: list[Child], state: Path, ends: list[int]) -> None:
    """Keep the children up until one of `ends` is readable. The kubelet waits for its nodes."""
    *first, kubelet = ways
    up += first
    while not select.select(ends, [], [], LOOK_S)[0]:
        if len(up) < len(ways) and _has_nodes(state):
            up.append(kubelet)
        for child in up:
            child.look_after(time.monotonic())


def _has_nodes(state: Path) -> bool:
    found = states.load(state)
    return found is not None and any(node.host_pid for node in found.nodes.values())


def _ends(die_with_fd: int | None) -> list[int]:
    """Descriptors that become readable when we have to end."""
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write_end)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return [read_end] if die_with_fd is None else [read_end, die_with_fd]


def _children(given: argparse.Namespace, words: list[str], lifeline: Lifeline) -> list[Child]:
    """The ways out, the cluster, and the kubelet, in the order of their start."""
    root: Path = given.state.resolve()
    host, port = _server(given.kubeconfig_dir / "kubelet.yaml")
    known = states.load(root)
    run_id = known.run_id if known else given.run_id or secrets.token_hex(6)
    way = str(root / "api.sock")
    cluster = ["--state", str(root), "--run-id", run_id, "--api-socket", way]
    cluster += ["--driver-socket", str(given.driver_socket or root / "driver.sock")]
    for option in ("nodes", "racks", "kind", "memory_mib", "scratch_mib"):
        if (value := getattr(given, option)) is not None:
            cluster += [f"--{option.replace('_', '-')}", str(value)]
    ways = {"outlet": _outlet(way, host, port)}
    for at, _, to in (each.partition("=") for each in given.way):
        socket, (host, _, behind) = str(root / f"way-{at}.sock"), to.rpartition(":")
        ways[f"way-{at}"] = _outlet(socket, host, int(behind))
        cluster += ["--relay", f"{at}={socket}"]
    wanted = {
        **ways,
        "emulator": ("holdfast.lab.emulator.main", cluster),
        "kubelet": (f"{HERE}.main", [*words, "--serve"]),
    }
    return [
        Child(
            name,
            module,
            arguments,
            log=root / f"{name}.log",
            lifeline=lifeline,
            environment=os.environ | {RUN_MARK: run_id},
        )
        for name, (module, arguments) in wanted.items()
    ]


def _outlet(at: str, host: str, port: int) -> tuple[str, list[str]]:
    """Module and words of a way from a Unix socket to a port of this machine."""
    return f"{HERE}.outlet", ["--at", at, "--host", host, "--port", str(port)]


def _server(kubeconfig: Path) -> tuple[str, int]:
    """Host and port of the API server. Raises `BadKubeconfig`."""
    try:
        clusters = yaml.safe_load(kubeconfig.read_text())["clusters"]
        server = urlsplit(clusters[0]["cluster"]["server"])
    except (OSError, yaml.YAMLError, LookupError, TypeError) as error:
        raise BadKubeconfig(f"--kubeconfig-dir: {kubeconfig} cannot be used: {error}") from error
    return server.hostname or "127.0.0.1", server.port or 443


if __name__ == "__main__":
    sys.exit(main())
