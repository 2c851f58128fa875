"""The tests themselves, one file each: measure one thing, and say what was measured.

Each has the name of its test in `diagnostics.registry`, and `run(order, node) -> Measured`. Called
by `diagnostics.runner`, which watches the time. A probe may hang; it must not decide.
"""

import socket

import msgspec

from holdfast.protocol.messages import Rendezvous


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe found. `ok` is None where it could not be run."""

    ok: bool | None
    wrong: bool = False  # not ok, and not for being slow: the result is another than it has to be
    value: float | None = None  # in the unit of its test
    detail: str = ""


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
