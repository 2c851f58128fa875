"""What the emulated cluster of Kubernetes nodes is told on its command line. The only reader of it.

`main` passes its own words on to its children, so that all read the same.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from holdfast.kit.files import check_socket_path
from holdfast.lab.emulator.kubelet import orders
from holdfast.lab.emulator.namespaces import Kind


def read(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options. Ends the process with a sentence where they are wrong."""
    made = argparse.ArgumentParser(
        prog="python -m holdfast.lab.emulator.kubelet.main", allow_abbrev=False
    )
    add = made.add_argument
    add("--state", type=Path, required=True, help="folder for everything it keeps")
    add(
        "--kubeconfig-dir",
        type=Path,
        required=True,
        help="NODE.yaml of each node, kubelet.yaml of the shared watch, server.crt and .key",
    )
    add("--nodes", type=int, default=1, help="nodes")
    add("--racks", type=int, default=1, help="racks the nodes stand in")
    add("--run-id", default="", help="mark of the run, for sweeps; default: random")
    add("--kind", type=Kind, choices=list(Kind), help="default: the best there is")
    add("--driver-socket", type=Path, help="a driver outside, reached by 198.18.0.1:7480")
    add(
        "--way",
        action="append",
        default=[],
        metavar="PORT=HOST:PORT",
        help="what else of this machine nodes reach, at 198.18.0.1:PORT",
    )
    add("--memory-mib", type=int, default=1_024, help="memory of each node, and of an emptyDir")
    add("--scratch-mib", type=int, default=256, help="disk of each node")
    add("--cpus", type=int, default=16, help="processors that each node is said to have")
    add("--memory-gib", type=int, default=64, help="memory that each node is said to have")
    add("--gpus", type=int, default=8, help="nvidia.com/gpu that each node is said to have")
    add("--lease-s", type=int, default=40, help="how long a lease is good; renewed at a quarter")
    add("--image", action="append", default=[], help="an image: PATTERN or PATTERN=ENTRY POINT")
    add("--token-oldest-s", type=float, default=86_400.0, help="a token is renewed after this")
    add("--restart-base-s", type=float, default=10.0, help="the first backoff of a container")
    add("--serve", action="store_true", help=argparse.SUPPRESS)
    add("--die-with-fd", type=int, help="end when this descriptor is at its end")
    given = made.parse_args(arguments)
    deepest = given.state.resolve() / "nodes" / f"node-{given.nodes}"
    try:
        check_socket_path(orders.socket_path(deepest), "--state")
    except ValueError as error:
        made.error(str(error))
    return given
