"""What a node's signals are told on their command line, and by a pod's environment.

The only file of this folder that reads either.
"""

import os
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from holdfast.protocol.nodeenv import BadSettings

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One node's; `dcgm` is "" where there is none, `boot` the kernel's word for this boot."""

    node: str
    kernel_log: Path
    dcgm: str = ""
    boot: str
    api_server: str
    account: Path


def read(
    arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ
) -> Settings:
    """The settings. Raises `BadSettings` with what cannot be used, in a sentence."""
    said = _parser().parse_args(arguments)
    _open(said.kernel_log)
    return Settings(
        node=said.node,
        kernel_log=said.kernel_log,
        dcgm=said.dcgm,
        boot=_boot(said.boot_id),
        api_server=said.api_server.rstrip("/") or _of_the_pod(environment),
        account=said.service_account,
    )


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="holdfast signals", description=__doc__)
    add = parser.add_argument
    add("--node", required=True, help="name of this node's Node object")
    add(
        "--kernel-log", type=Path, default=Path("/dev/kmsg"), help="that device, or a file of lines"
    )
    add("--dcgm", default="", help="http://HOST:PORT/metrics of this node's DCGM exporter")
    add("--api-server", default="", help="https://HOST:PORT; else that of the pod's environment")
    add("--service-account", type=Path, default=Path(ACCOUNT), help="folder of token and ca.crt")
    add("--boot-id", type=Path, default=Path(BOOT_ID), help="file with the kernel's boot id")
    return parser


def _open(kernel_log: Path) -> None:
    try:
        os.close(os.open(kernel_log, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        fix = "Mount the node's there, and run privileged and as root"
        raise BadSettings(f"{kernel_log} cannot be read: {error.strerror}. {fix}.") from error


def _boot(boot_id: Path) -> str:
    try:
        boot = boot_id.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"{boot_id} cannot be read: {error}.") from error
    if not boot.replace("-", "").isalnum():
        raise BadSettings(f"{boot_id} has no boot id in it.")
    return boot


def _of_the_pod(environment: Mapping[str, str]) -> str:
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise BadSettings("this is no pod: give --api-server https://HOST:PORT.")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
