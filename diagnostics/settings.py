"""What a diagnostic is told by its environment. The only place here that reads it."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec


class Settings(msgspec.Struct, frozen=True):
    """This node's name, the interface for its collectives ("" where any will do), and the folder
    whose disk is its own."""

    node: str
    ifname: str = ""
    scratch: Path = Path()


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """Raises `ValueError` where HOLDFAST_NODE is not set."""
    node = environment.get("HOLDFAST_NODE", "")
    if not node:
        raise ValueError("HOLDFAST_NODE: not set. Set it to this node's name.")
    scratch = Path(environment.get("HOLDFAST_SCRATCH", ""))
    return Settings(node, environment.get("HOLDFAST_IFNAME", ""), scratch)


def use_interface(ifname: str, address: str) -> None:
    """Have collectives of this process go over `ifname`, or stay on the loopback of `address`."""
    name = ifname or ("lo" if address.startswith("127.") else "")
    if name:
        os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = name
