"""Links that meet a driver which stands by: they go at once to the one that it says leads."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from http import HTTPStatus
from pathlib import Path

import pytest
from nobody import Nobody
from waiting import DEADLINE_S, eventually_async
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from holdfast.daemon import settings as daemon_settings
from holdfast.daemon.link import Link as DaemonLink
from holdfast.executor import settings as executor_settings
from holdfast.executor.link import Link as ExecutorLink
from holdfast.protocol import nodeenv
from holdfast.protocol.leading import LEADER, leader_of
from holdfast.protocol.messages import Hello, Welcome
from holdfast.protocol.version import PROTOCOL_VERSION
from holdfast.protocol.wire import encode

Run = Callable[[str], asyncio.Task[None]]


class Drivers:
    """Servers on loopback, and how often each was asked."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.asked: list[str] = []
        self.led: list[str] = []

    async def leads(self) -> str:
        """Where a driver is that welcomes nodes."""

        async def welcome(connection: ServerConnection) -> None:
            await connection.recv()
            await connection.send(encode(Welcome(term=1)))
            assert connection.request is not None
            self.led.append(connection.request.path)
            await connection.wait_closed()

        return _url(await self._stack.enter_async_context(serve(welcome, "127.0.0.1", 0)))

    async def hangs(self) -> str:
        """Where a driver is that welcomes nodes, and then hears nothing any more."""

        async def welcome(connection: ServerConnection) -> None:
            await connection.recv()
            await connection.send(encode(Welcome(term=1)))
            connection.transport.pause_reading()
            self.led.append("hangs")
            await connection.wait_closed()

        return _url(await self._stack.enter_async_context(serve(welcome, "127.0.0.1", 0)))

    async def stands_by(self, names: list[str]) -> str:
        """Where a driver is that names the last of `names`."""
        mine: list[str] = []

        def refuse(connection: ServerConnection, request: Request) -> Response:
            self.asked += mine
            response = connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "it stands by\n")
            response.headers[LEADER] = names[-1]
            return response

        async def nobody(connection: ServerConnection) -> None:
            raise AssertionError("a driver that stands by welcomes nobody")

        made = serve(nobody, "127.0.0.1", 0, process_request=refuse)
        mine.append(_url(await self._stack.enter_async_context(made)))
        return mine[0]


def _url(server: Server) -> str:
    return f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"


@pytest.fixture
async def drivers() -> AsyncIterator[Drivers]:
    async with AsyncExitStack() as stack:
        yield Drivers(stack)


WAITED: list[float] = []


def no_wait() -> Iterator[float]:
    """In the place of a link's backoff: counted, and not waited for."""
    while True:
        WAITED.append(0.0)
        yield 0.0


@pytest.fixture(params=["executor", "daemon"])
async def run(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Run]:
    """Have a link run that was given one address."""
    WAITED.clear()
    monkeypatch.setattr("holdfast.daemon.link.OPEN_TIMEOUT_S", DEADLINE_S)
    monkeypatch.setattr("holdfast.executor.link.OPEN_LIMIT_S", DEADLINE_S)
    (tmp_path / "token").write_text("secret")
    running: list[asyncio.Task[None]] = []

    def start(url: str) -> asyncio.Task[None]:
        told = {
            nodeenv.NODE: "n",
            nodeenv.DRIVER_URL: url,
            nodeenv.TOKEN_FILE: str(tmp_path / "token"),
            nodeenv.SCRATCH: str(tmp_path),
            nodeenv.MEMORY: str(tmp_path),
        }
        running.append(asyncio.create_task(_link(request.param, told)))
        return running[-1]

    yield start
    for each in running:
        each.cancel()
        with suppress(asyncio.CancelledError):
            await each


async def _link(process: str, told: dict[str, str]) -> None:
    if process == "executor":
        link = ExecutorLink(executor_settings.read(told), Nobody())
        link._waits = no_wait  # type: ignore[assignment]
        await link.run()
        return

    async def received(message: object) -> None: ...

    hello = Hello(protocol=PROTOCOL_VERSION, process="daemon", node="n", incarnation="i")
    daemon = DaemonLink(daemon_settings.read(told), hello)
    daemon._waits = no_wait  # type: ignore[assignment]
    await daemon.run(received)


async def test_it_goes_where_a_driver_that_stands_by_sends_it(drivers: Drivers, run: Run) -> None:
    run(await drivers.stands_by([await drivers.leads()]))
    await eventually_async(lambda: drivers.led)
    assert WAITED == [], "it did not wait in between"
    assert len(drivers.asked) == 1


@pytest.mark.parametrize("run", ["executor"], indirect=True)
async def test_it_leaves_a_driver_that_hangs_though_its_kernel_goes_on(
    drivers: Drivers, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon notices by heartbeats that nobody acknowledges."""
    monkeypatch.setattr("holdfast.executor.link.PING_EVERY_S", 0.05)
    monkeypatch.setattr("holdfast.executor.link.PING_WITHIN_S", 0.05)
    run(f"{await drivers.hangs()},{await drivers.leads()}")
    await eventually_async(lambda: len(drivers.led) > 1, "it went to the other one")
    assert drivers.led[:2] == ["hangs", "/v1alpha1/nodes/n/executor"]


async def test_it_is_sent_on_once_and_then_waits_and_begins_again(
    drivers: Drivers, run: Run
) -> None:
    """Two that name each other would otherwise be asked without an end."""
    named = ["http://127.0.0.1:1"]
    one = await drivers.stands_by(named)
    other = await drivers.stands_by([one])
    named.append(other)
    run(one)
    await eventually_async(lambda: len(drivers.asked) >= 6)
    assert drivers.asked[:6] == [one, other] * 3
    assert len(WAITED) >= 2


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("http://10.0.0.2:7700/", "http://10.0.0.2:7700"),
        ("", ""),
        ("file:///etc/passwd", ""),
        ("http://x:abc", ""),
        ("http://:7700", ""),
    ],
)
def test_only_an_address_of_a_driver_is_gone_to(said: str, meant: str) -> None:
    assert leader_of({LEADER: said}, asked="http://10.0.0.1:7700") == meant


def test_nobody_is_led_out_of_tls() -> None:
    for asked, named, meant in (
        ("https://a:1", "http://b:1", ""),
        ("https://a:1", "https://b:1", "https://b:1"),
        ("http://a:1", "https://b:1", "https://b:1"),
    ):
        assert leader_of({LEADER: named}, asked=asked) == meant
