"""Who asks here and does not hear the answer: half-done handshakes, of a table and of a kernel."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import eventually, eventually_async

from holdfast.daemon.probes import half_open
from holdfast.daemon.probes.half_open import asking
from holdfast.daemon.probes.prober import _HANG_UP_AT_ONCE, LOOK_AGAIN_S, Prober
from holdfast.kit.clock import SystemClock
from holdfast.protocol.messages import Probe

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
ROW = "   0: 0200000A:{port:04X} {address}:9C40 {state} 00000000:00000000 01:00000064 00000000  0\n"


def test_it_is_who_has_asked_this_port_and_not_answered_since(tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    table.write_text(
        HEAD
        + ROW.format(port=7001, address="0300000A", state="03")
        + ROW.format(port=7001, address="0400000A", state="01")
        + ROW.format(port=7002, address="0500000A", state="03")
        + "torn\n"
    )
    assert asking(7001, table) == {"10.0.0.3"}


def test_where_the_kernel_does_not_tell_there_is_nobody(tmp_path: Path) -> None:
    assert asking(7001, tmp_path / "none") == frozenset()


@contextmanager
def half_done() -> Iterator[int]:
    """A port with a handshake of 127.0.0.1 that this kernel has half done: a listener that wants
    data first takes no notice of the last word of one without."""
    with socket.socket() as server, socket.socket() as client:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 60)
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _HANG_UP_AT_ONCE)
        client.connect(("127.0.0.1", port))
        yield port


def test_this_kernel_tells_who_asks_until_it_hangs_up() -> None:
    with half_done() as port:
        eventually(lambda: asking(port) == {"127.0.0.1"}, "a row of the kernel's")
    assert asking(port) == frozenset()


async def test_a_neighbour_that_answers_nothing_and_asks_here_is_heard() -> None:
    with half_done() as own, socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:  # a full queue: the kernel drops what comes after
            filler.setblocking(False)
            filler.connect_ex(deaf.getsockname())
        prober = Prober(SystemClock(), own)
        prober.use({"other": "127.0.0.1"}, deaf.getsockname()[1])
        running = asyncio.create_task(prober.run())
        try:
            await eventually_async(lambda: prober.probes()[0].heard, "it is heard to ask")
        finally:
            running.cancel()
            await asyncio.wait([running])
            for filler in fillers:
                filler.close()


def test_the_table_is_read_once_a_second_however_often_a_daemon_speaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Clock(SystemClock):
        now_s = 0.0

        def monotonic_s(self) -> float:
            return self.now_s

    looks: list[int] = []
    monkeypatch.setattr(half_open, "asking", lambda port: looks.append(port) or frozenset())
    clock = Clock()
    prober = Prober(clock, 7001)
    prober.use({"other": "127.0.0.1"}, 0)
    prober.probes()
    assert looks == [], "nobody is missed"
    prober._seen["other"] = Probe(node="other", ok=False, silent_s=9.0), 0.0
    for _ in range(10):
        clock.now_s += LOOK_AGAIN_S / 4
        prober.probes()
    assert len(looks) == 3
