"""Free ports for programs that must be told theirs. Used by `plane`."""

import socket
from contextlib import ExitStack
from pathlib import Path
from random import SystemRandom

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST = 10_000
TRIES = 100


def free_ports(count: int) -> list[int]:
    """Different ports of loopback where nobody listens, none that an outgoing connection gets.

    Raises `OSError` where none is found.
    """
    first_ephemeral = int(EPHEMERAL.read_text().split()[0])
    highest = max(first_ephemeral, LOWEST + 10_000) - 1
    with ExitStack() as held:
        return [_bound(held, highest) for _ in range(count)]


def _bound(held: ExitStack, highest: int) -> int:
    for _ in range(TRIES):
        port = SystemRandom().randint(LOWEST, highest)
        probe = held.enter_context(socket.socket())
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return port
    raise OSError(f"no free port of 127.0.0.1 between {LOWEST} and {highest}")
