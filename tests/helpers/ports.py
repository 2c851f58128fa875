"""Ports for servers that tests start in other processes and cannot ask which port they got."""

import socket
from pathlib import Path
from random import SystemRandom

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST = 10_000


def free_port() -> int:
    """A port of loopback where nobody listens; no outgoing connection is given it meanwhile."""
    first_ephemeral = int(EPHEMERAL.read_text().split()[0])
    highest = max(first_ephemeral, LOWEST + 10_000) - 1
    while True:
        port = SystemRandom().randint(LOWEST, highest)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
