"""The executor's side of ranks that begin anew: who is taken for which place, and who is not."""

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL
from typing import Any, cast

import pytest
from waiting import eventually_async

from holdfast.executor.adapters import reentry
from holdfast.executor.adapters.children import Children
from holdfast.executor.adapters.reentry import Reentry
from holdfast.protocol.messages import Seat

ENTRANT = """
import socket, sys, time
from pathlib import Path
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.connect(chr(0) + sys.argv[1])
link.send(b'{"type": "Enter", "rank": 1, "local_rank": 1}')
while not Path(sys.argv[2]).exists():
    time.sleep(.01)
link.send(b'{"type": "AtRest"}')
time.sleep(1000)
"""
"""It rests once the file is there, whatever it is told, and stays."""


class Nobody:
    """Has no children."""

    def watch(self, pid: int, on_exit: object) -> None:
        """It is not told."""


@pytest.fixture
async def node() -> AsyncIterator[Reentry]:
    made = Reentry(cast(Children, Nobody()))
    made.open()
    yield made
    made.close()


Enters = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def entrant(node: Reentry, tmp_path: Path) -> Iterator[Enters]:
    with ExitStack() as stack:

        def start() -> "subprocess.Popen[bytes]":
            command = [sys.executable, "-c", ENTRANT, node.name, str(tmp_path / "rests")]
            process = stack.enter_context(subprocess.Popen(command))
            stack.callback(process.kill)
            return process

        yield start


def begun(node: Reentry, rank: int, local_rank: int) -> int | None:
    seat = Seat(rank=rank, local_rank=local_rank, node="node-1", address="10.0.0.1")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        return node.begin(seat, {}, stdout=nowhere, stderr=nowhere, on_exit=lambda *_: None)
    finally:
        os.close(nowhere)


async def test_only_who_had_this_rank_and_this_place_on_the_node_goes_on(
    node: Reentry, entrant: Enters, tmp_path: Path
) -> None:
    """What it holds of devices is of its place."""
    (tmp_path / "rests").touch()
    process = entrant()
    await eventually_async(lambda: node.pids == {process.pid}, "it rests")
    assert begun(node, 1, 0) is None
    assert begun(node, 0, 1) is None
    assert begun(node, 1, 1) == process.pid
    assert begun(node, 1, 1) is None, "it does not rest any more"


async def test_who_rests_and_has_no_place_is_killed(
    node: Reentry, entrant: Enters, tmp_path: Path
) -> None:
    (tmp_path / "rests").touch()
    process = entrant()
    await eventually_async(lambda: node.pids == {process.pid}, "it rests")
    node.drop()
    assert process.wait(60) == -SIGKILL
    assert node.pids == set()


async def test_who_rests_too_late_is_not_taken(
    node: Reentry, entrant: Enters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was given up, and is being ended."""
    monkeypatch.setattr(reentry, "REST_LIMIT_S", 0.05)
    monkeypatch.setattr(reentry, "STARVED_LIMIT_S", 0.0)
    process = entrant()
    await eventually_async(lambda: node._can_rest(process.pid), "it is in its function")
    node.ask([process.pid])
    assert await node.rested() == {process.pid}
    (tmp_path / "rests").touch()
    await eventually_async(lambda: process.pid not in node._entrants, "it is nobody's")
    assert node.pids == set()
    assert begun(node, 1, 1) is None


async def test_a_second_connection_of_one_process_takes_nothing_from_the_first(
    node: Reentry,
) -> None:
    links: list[Any] = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
    with links[0] as first, links[1] as second:
        first.connect(f"\0{node.name}")
        await eventually_async(lambda: os.getpid() in node._entrants, "it has entered")
        known = node._entrants[os.getpid()]
        second.connect(f"\0{node.name}")
        second.setblocking(False)

        def is_closed() -> bool:
            try:
                return bool(second.recv(1) == b"")
            except BlockingIOError:
                return False

        await eventually_async(is_closed, "the second is refused")
        assert node._entrants[os.getpid()] is known
