"""Which children that are forked ahead stay: none that lacks an import, nor of a launcher that is
gone. The launcher is a socket here, at whose other end a test answers.
"""

import asyncio
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator

import msgspec
import pytest

from holdfast.executor.adapters.children import Exit
from holdfast.executor.adapters.launcher import Launcher
from holdfast.executor.launcher.orders import Fork, Forked, Import, Imported, Spare

pytestmark = pytest.mark.asyncio


class Children:
    """Watches nobody."""

    def __init__(self) -> None:
        self.ended: dict[int, Callable[[int, Exit | None], None]] = {}

    def watch(self, pid: int, ended: Callable[[int, Exit | None], None]) -> None:
        self.ended[pid] = ended


class Far:
    """A warm launcher, its other end, and processes that are its spares."""

    def __init__(self) -> None:
        self.children = Children()
        self.launcher = Launcher(self.children, print)  # type: ignore[arg-type]
        ours, self.link = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, self.link):
            end.setblocking(False)
        self.launcher._link = ours
        self.launcher._order = ({}, "", [])
        self.launcher.state = "warm"
        self.decoder = msgspec.json.Decoder(Import | Fork | Spare)
        self.forked: list[subprocess.Popen[bytes]] = []

    def ordered(self) -> list[Import | Fork | Spare]:
        """What has come since it was asked last."""
        found = []
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(self.link, 65_536, 2)
            except BlockingIOError:
                return found
            for fd in fds:
                socket.close(fd)
            found.append(self.decoder.decode(data))

    async def says(self, message: Forked | Imported) -> None:
        self.link.send(msgspec.json.encode(message))
        self.launcher._read()
        await asyncio.sleep(0)  # what follows an answer is called in the loop's next turn

    async def forks(self, *orders: Import | Fork | Spare) -> list[int]:
        """Each order has its child."""
        for order in orders:
            assert isinstance(order, Spare)
            self.forked.append(subprocess.Popen(["sleep", "1000"]))
            await self.says(Forked(id=order.id, pid=self.forked[-1].pid))
        return [each.pid for each in self.forked[-len(orders) :]]

    @property
    def spares(self) -> set[int]:
        return set(self.launcher._spares.pids)


@pytest.fixture
async def far() -> Iterator[Far]:
    found = Far()
    yield found
    if found.launcher._link is not None:
        found.launcher.close("the test is over")
    found.link.close()
    for each in found.forked:
        each.kill()
        each.wait()


async def ready(far: Far, count: int) -> list[int]:
    far.launcher.hold_ready(count)
    return await far.forks(*far.ordered())


async def test_so_many_are_forked_as_are_wanted_and_no_more(far: Far) -> None:
    pids = await ready(far, 2)
    assert far.spares == set(pids)
    far.launcher.hold_ready(2)
    assert far.ordered() == []
    far.launcher.hold_ready(3)
    assert len(far.ordered()) == 1


async def test_those_that_would_lack_an_import_end_and_others_come_after_it(far: Far) -> None:
    await ready(far, 2)
    far.launcher.import_more(["wave"])
    assert far.spares == set()
    assert [each.wait(10) for each in far.forked] == [-signal.SIGKILL] * 2
    far.launcher.hold_ready(2)
    (asked,) = far.ordered()
    assert asked == Import(modules=("wave",), gently=True), "none is forked meanwhile"
    await far.says(Imported(imported=1, skipped=0))
    assert [type(each) for each in far.ordered()] == [Spare, Spare]


async def test_one_that_was_on_its_way_then_is_let_go(far: Far) -> None:
    far.launcher.hold_ready(1)
    (asked,) = far.ordered()
    far.launcher.import_more(["wave"])
    await far.forks(asked)
    assert far.spares == set()


async def test_none_outlives_its_launcher(far: Far) -> None:
    await ready(far, 2)
    far.launcher.close("it died")
    assert far.spares == set()
    assert [each.wait(10) for each in far.forked] == [-signal.SIGKILL] * 2


async def test_one_that_has_ended_is_replaced(far: Far) -> None:
    (pid,) = await ready(far, 1)
    far.children.ended[pid](pid, None)
    assert far.spares == set()
    far.launcher.hold_ready(1)
    assert [type(each) for each in far.ordered()] == [Spare]
