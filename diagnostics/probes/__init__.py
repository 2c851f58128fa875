"""The tests themselves, one file each: measure one thing, and say what was measured.

Each has the name of its test in `diagnostics.registry`, and `run(order, node) -> Measured`. Called
by `diagnostics.runner`, which watches the time. A probe may hang; it must not decide.
"""

import socket

from holdfast.diagnostics.measured import Measured
from holdfast.protocol.messages import Rendezvous

__all__ = ["Measured", "listening", "too_little"]


def listening(where: Rendezvous) -> socket.socket:
    """A socket that listens there, on this address only. Raises `OSError`."""
    family = socket.AF_INET6 if ":" in where.address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((where.address, where.port))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def too_little(what: str, free_bytes: int, needed_bytes: int) -> Measured:
    """The node has no room for the test, which says nothing of how good it is."""
    free, needed = free_bytes >> 20, needed_bytes >> 20
    return Measured(ok=None, detail=f"{free} MiB of {what} are free, and {needed} are needed")
