"""A rank that asks a server again and again, in few bytes, is at work; one that is blocked while a
thread of it does so is not."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from waiting import eventually

from holdfast.daemon.samplers.activity import Moves
from holdfast.daemon.samplers.asks import OVER_S, Asks
from holdfast.daemon.samplers.sockets import Sockets
from holdfast.kit import procstat

ASKS = """
import socket, sys, threading, time
server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def ask():
    while True: server.sendall(b"?"); server.recv(1); time.sleep(.01)
threading.Thread(target=ask, daemon=True).start() if sys.argv[2] != "asks" else ask()
threading.Event().wait()
"""


@pytest.fixture
def port() -> Iterator[int]:
    """Of a server that answers each byte of the one that asks it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            theirs, _ = server.accept()
            with theirs:
                while asked := theirs.recv(1):
                    theirs.sendall(asked)

        thread = threading.Thread(target=answer)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("main_thread", "what"),
    [
        pytest.param("asks", "it asks somebody again and again, and bytes come and go"),
        pytest.param("waits", ""),
    ],
)
def test_who_asks_is_at_work(port: int, main_thread: str, what: str) -> None:
    """Time is the test's own, as long as it takes until bytes have come and gone."""
    asked = [sys.executable, "-c", ASKS, str(port), main_thread]
    with subprocess.Popen(asked, env={"PATH": os.environ["PATH"]}) as child:
        try:
            moves = Moves(child.pid, Sockets())
            for second in range(int(OVER_S) + 3):
                more(child.pid)
                moves.look(float(second))
            assert moves.what == what
        finally:
            child.kill()


def more(pid: int) -> None:
    """Wait until some more bytes have come and gone."""
    before = carried(pid)
    eventually(lambda: carried(pid) > before + 20, "it asks, and is answered")


def carried(pid: int) -> int:
    return sum((Sockets().bytes(pid, 0.0) or {}).values())


@pytest.mark.parametrize(
    ("wakes_per_s", "share", "asks"),
    [
        pytest.param(2.0, 0.1, True, id="asks twice a second"),
        pytest.param(0.2, 0.0, False, id="looks every five seconds whether a loader lives"),
        pytest.param(20.0, 0.9, False, id="spins, and gives other threads their turn"),
    ],
)
def test_who_spins_or_is_blocked_does_not_ask(
    monkeypatch: pytest.MonkeyPatch, wakes_per_s: float, share: float, asks: bool
) -> None:
    now = 0.0
    monkeypatch.setattr(procstat, "main_thread", lambda _pid: (int(wakes_per_s * now), share * now))
    watched, found = Asks(1), []
    for half_second in range(40):
        now = half_second / 2
        found.append(watched.look(now))
    assert any(found) is asks


def test_a_process_that_is_gone_has_no_main_thread() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
        assert procstat.main_thread(child.pid) is None
