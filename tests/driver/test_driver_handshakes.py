"""A crowd at a driver's port that speaks TLS: who is let in, who waits, who is given up."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import pytest
from authorities import CA, NOW, WallClock
from waiting import DEADLINE_S, eventually_async

from holdfast.driver.adapters.authority import Issued
from holdfast.driver.serve import handshakes
from holdfast.driver.serve.handshakes import Handshakes
from holdfast.driver.serve.tls import Tls
from holdfast.kit.tls import trusting

TRUSTING = trusting(CA.certificate)


class Echo(asyncio.Protocol):
    """Counts who was begun with; says hello to who came through."""

    begun = 0

    def __init__(self) -> None:
        Echo.begun += 1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(b"hello")

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Crowd:
    """Connections to the port; `silent` ones never say a word."""

    def __init__(self, at: tuple[str, int], shaking: Handshakes, stack: ExitStack) -> None:
        self.at = at
        self.shaking = shaking
        self._stack = stack

    def silent(self) -> socket.socket:
        return self._stack.enter_context(socket.create_connection(self.at, timeout=DEADLINE_S))

    async def waiting(self, number: int) -> None:
        """Return once so many have come for whom there is no place."""
        await eventually_async(lambda: len(self.shaking._waiting) == number)

    async def greeted(self) -> bytes:
        """What one who speaks TLS hears first."""
        reader, writer = await asyncio.open_connection(*self.at, ssl=TRUSTING)
        try:
            return await asyncio.wait_for(reader.readexactly(5), DEADLINE_S)
        finally:
            writer.transport.abort()


@asynccontextmanager
async def serving(at_once: int, within_s: float = DEADLINE_S) -> AsyncIterator[Crowd]:
    tls = Tls(Issued(CA, ("127.0.0.1",), WallClock(NOW)), ca=CA.certificate)
    Echo.begun = 0
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        shaking = Handshakes(listening, tls.context, Echo, at_once=at_once, within_s=within_s)
        try:
            yield Crowd(listening.getsockname(), shaking, stack)
        finally:
            shaking.close()
            await asyncio.sleep(0)


async def begun(number: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while Echo.begun < number:
            await asyncio.sleep(0.001)


async def turns(number: int = 50) -> None:
    """Of the event loop: enough for what could go on to have gone on."""
    for _ in range(number):
        await asyncio.sleep(0)


async def test_no_more_are_begun_with_than_there_are_places() -> None:
    async with serving(at_once=2) as crowd:
        first, _ = crowd.silent(), crowd.silent()
        await begun(2)
        third = asyncio.create_task(crowd.greeted())
        await crowd.waiting(1)
        assert Echo.begun == 2
        assert not third.done()
        first.close()
        assert await third == b"hello"


async def test_the_newest_who_wait_have_the_first_places() -> None:
    async with serving(at_once=1) as crowd:
        first = crowd.silent()
        await begun(1)
        come = []
        for number in range(1, 4):
            come.append(asyncio.create_task(crowd.greeted()))
            await crowd.waiting(number)
        first.close()
        over = []
        for each in come:
            each.add_done_callback(over.append)
        await asyncio.gather(*come)
        assert over == come[::-1]


async def test_who_left_while_they_waited_are_not_begun_with() -> None:
    async with serving(at_once=1) as crowd:
        first = crowd.silent()
        await begun(1)
        for _ in range(3):
            crowd.silent().close()
        last = asyncio.create_task(crowd.greeted())
        first.close()
        assert await last == b"hello"
        assert Echo.begun == 2


async def test_who_says_nothing_has_a_place_for_a_while_only() -> None:
    async with serving(at_once=1, within_s=0.05) as crowd:
        silent = crowd.silent()
        await begun(1)
        crowd.shaking._within_s = DEADLINE_S  # of the next: both of its ends may be slow
        assert await crowd.greeted() == b"hello"
        assert await asyncio.to_thread(silent.recv, 1) == b""


async def test_who_speaks_no_tls_frees_its_place() -> None:
    async with serving(at_once=1) as crowd:
        crowd.silent().sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert await crowd.greeted() == b"hello"


async def test_many_come_through_a_few_places() -> None:
    async with serving(at_once=2) as crowd:
        heard = await asyncio.gather(*(crowd.greeted() for _ in range(30)))
        assert heard == [b"hello"] * 30


async def test_without_file_descriptors_it_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = iter([OSError(errno.EMFILE, "Too many open files")])
    real = socket.socket.accept

    def accept(listening: socket.socket) -> tuple[socket.socket, object]:
        for refusal in refusals:
            raise refusal
        return real(listening)

    monkeypatch.setattr(handshakes, "AGAIN_S", 0.0)
    monkeypatch.setattr(socket.socket, "accept", accept)
    async with serving(at_once=1) as crowd:
        assert await crowd.greeted() == b"hello"
    assert next(refusals, None) is None


async def test_closed_it_lets_nobody_more_in_and_drops_who_was_not_through() -> None:
    async with serving(at_once=2) as crowd:
        silent = crowd.silent()
        await begun(1)
        crowd.shaking.close()
        assert await asyncio.to_thread(silent.recv, 1) == b""
        crowd.silent()
        await turns()
        assert Echo.begun == 1


async def test_closed_before_a_handshake_began_it_drops_that_one_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = socket.socket.accept
    async with serving(at_once=1) as crowd:

        def accept(listening: socket.socket) -> tuple[socket.socket, object]:
            accepted = real(listening)
            asyncio.get_running_loop().call_soon(crowd.shaking.close)
            return accepted

        monkeypatch.setattr(socket.socket, "accept", accept)
        assert await asyncio.to_thread(crowd.silent().recv, 1) == b""
        assert Echo.begun == 0
