"""A node's own link as the way to the API server: sockets made inside the node's network.

Used by `agent` and `probes`. A socket belongs for ever to the network that it was made in, so what
is said through it is cut, slowed and counted with the node's link. Must not be used for the shared
watch, which is nobody's.
"""

import socket
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubernetes.aio.client import Configuration

from holdfast.kubeapi import credentials
from holdfast.kubeapi.client import Client, Limits
from holdfast.lab.emulator import namespaces
from holdfast.lab.emulator.nodes import API_PORT, SWITCH_ADDRESS

USER_AGENT = "holdfast-emulated-kubelet"
ANSWER_WITHIN_S = 5.0
GIVE_UP_AFTER_MS = 5_000
"""TCP_USER_TIMEOUT: a connection that was cut is not believed in for longer (RFC 5482)."""


def socket_in(host_pid: int, family: int, kind: int, protocol: int = 0) -> socket.socket:
    """A socket in the network of the node with this init. Raises `OSError` where it is no more.

    Made by a thread of its own, which ends there: without root nobody finds the way back.
    """
    made: list[socket.socket | OSError] = []

    def make() -> None:
        try:
            namespaces.enter(host_pid, "net")
            made.append(socket.socket(family, kind, protocol))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=make, name=f"link-of-{host_pid}")
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]


class NodeClient(Client):
    """The API server as a node reaches it, by the gateway of its switch, as who the node is."""

    def __init__(self, kubeconfig: Path, host_pid: int) -> None:
        super().__init__(
            by_the_gateway(kubeconfig),
            user_agent=USER_AGENT,
            limits=Limits(answer_within_s=ANSWER_WITHIN_S),
            make_socket=self._socket,
        )
        self.host_pid = host_pid

    def _socket(self, address: Any) -> socket.socket:
        family, kind, protocol, *_ = address
        made = socket_in(self.host_pid, family, kind, protocol)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, GIVE_UP_AFTER_MS)
        return made


def by_the_gateway(kubeconfig: Path) -> credentials.Load:
    """The gateway only relays: who answers has to be the server that the kubeconfig names."""
    direct = credentials.from_kubeconfig(kubeconfig, None)

    async def load() -> Configuration:
        configuration = await direct()
        server = configuration.tls_server_name or urlsplit(configuration.host).hostname
        configuration.tls_server_name = server
        configuration.host = f"https://{SWITCH_ADDRESS}:{API_PORT}"
        return configuration

    return load
