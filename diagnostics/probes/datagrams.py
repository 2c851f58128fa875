"""How many datagrams arrive between two nodes, each way: numbered ones, counted where they arrive.

A loss that TCP makes good shows in no all-reduce, and as retransmissions it shows at the healthy
sender. A connection between the two says when a burst has been sent, so that no buffer runs over
where a busy machine is late to read.
"""

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO, cast

from holdfast.diagnostics.probes import Measured, listening
from holdfast.protocol.messages import DiagnosticOrder

BURSTS, OF = 20, 50
"""1,000 datagrams each way: of 5 % that are lost at least 30 are missed, but for once in 500."""
BYTES = 500
LATE_S = 0.3
"""How long the last ones may take."""


def run(order: DiagnosticOrder, node: str) -> Measured:
    """The share that arrived the worse of both ways, in percent; which way is in the detail."""
    if order.rendezvous is None or node not in order.members:
        return Measured(ok=None, detail=f"{node} is not a member of this test")
    served = node == order.members[0]
    try:
        listener = listening(order.rendezvous) if served else None
    except OSError as error:
        where = f"{order.rendezvous.address}:{order.rendezvous.port}"
        return Measured(ok=None, detail=f"cannot serve on {where}: {error.strerror}")
    try:
        with ExitStack() as stack:
            meet = _served(order, listener) if listener else _joined(order)
            connection = stack.enter_context(meet)
            lines = stack.enter_context(connection.makefile("rw", encoding="ascii", newline="\n"))
            there, back = _exchange(connection, cast(TextIO, lines), first=served)
    except OSError as error:
        return Measured(ok=False, detail=error.strerror or str(error))
    except ValueError as error:
        return Measured(ok=False, detail=f"the other end says nothing that is known: {error}")
    one, other = order.members
    ways = f"{one} to {other} {there:.1f} %, {other} to {one} {back:.1f} %"
    return Measured(ok=True, value=min(there, back), detail=ways)


@contextmanager
def _served(order: DiagnosticOrder, listener: socket.socket) -> Iterator[socket.socket]:
    with listener:
        listener.settimeout(order.time_box_s)
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(order.time_box_s)
            yield connection


@contextmanager
def _joined(order: DiagnosticOrder) -> Iterator[socket.socket]:
    """Its first member may come later: it is asked again until the time is over."""
    assert order.rendezvous is not None
    where = (order.rendezvous.address, order.rendezvous.port)
    while True:  # the runner ends us when the time is over
        try:
            connection = socket.create_connection(where, timeout=order.time_box_s)
        except ConnectionRefusedError:
            select.select([], [], [], 0.05)
            continue
        with connection:
            yield connection
        return


def _exchange(connection: socket.socket, lines: TextIO, *, first: bool) -> tuple[float, float]:
    """Shares that arrived: of what the first member sent, and of what the other did."""
    with socket.socket(connection.family, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind((connection.getsockname()[0], 0))
        datagrams.setblocking(False)
        _say(lines, datagrams.getsockname()[1])
        to = (connection.getpeername()[0], _hear(lines))
        if first:
            there = _send(datagrams, to, lines)
            return there, _receive(datagrams, lines)
        there = _receive(datagrams, lines)
        return there, _send(datagrams, to, lines)


def _send(datagrams: socket.socket, to: tuple[str, int], lines: TextIO) -> float:
    """Send all; the share that the other end counted."""
    for burst in range(BURSTS):
        for number in range(burst * OF, (burst + 1) * OF):
            datagrams.sendto(number.to_bytes(4, "big").ljust(BYTES), to)
        _say(lines, burst)
        _hear(lines)
    return _hear(lines) / (BURSTS * OF) * 100


def _receive(datagrams: socket.socket, lines: TextIO) -> float:
    """Count all; the share that arrived."""
    seen: set[int] = set()
    for _ in range(BURSTS):
        burst = _hear(lines)
        _drain(datagrams, seen)
        _say(lines, burst)
    while len(seen) < BURSTS * OF and select.select([datagrams], [], [], LATE_S)[0]:
        _drain(datagrams, seen)
    _say(lines, len(seen))
    return len(seen) / (BURSTS * OF) * 100


def _drain(datagrams: socket.socket, seen: set[int]) -> None:
    while select.select([datagrams], [], [], 0)[0]:
        seen.add(int.from_bytes(datagrams.recv(BYTES)[:4], "big"))


def _say(lines: TextIO, number: int) -> None:
    lines.write(f"{number}\n")
    lines.flush()


def _hear(lines: TextIO) -> int:
    return int(lines.readline())
