"""Links of executor and daemon to a driver with TLS: whom they trust, and what they say if not."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from authorities import CA, DAY, NOW, STRANGER, show
from nobody import Nobody
from waiting import DEADLINE_S, eventually_async
from websockets.asyncio.server import ServerConnection, serve

from holdfast.daemon import link as daemon_link
from holdfast.daemon import settings as daemon_settings
from holdfast.executor import link as executor_link
from holdfast.executor import settings as executor_settings
from holdfast.protocol import nodeenv
from holdfast.protocol.messages import Hello, Welcome
from holdfast.protocol.version import PROTOCOL_VERSION
from holdfast.protocol.wire import encode


class Log:
    """In the place of a link's logger."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, event: str, **told: object) -> None:
        self.lines.append(f"{event}: {told}")

    warning = error = info


class Node:
    """One link, which tries again at once, and what it logs."""

    def __init__(self, process: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.process, self._folder = process, folder
        self.tries = 0
        self.log = Log()
        for module in (daemon_link, executor_link):
            monkeypatch.setattr(module, "_log", self.log)
        monkeypatch.setattr(daemon_link, "OPEN_TIMEOUT_S", DEADLINE_S)
        monkeypatch.setattr(executor_link, "OPEN_LIMIT_S", DEADLINE_S)
        (folder / "token").write_text("the node's token")

    async def run(self, url: str, ca: str) -> None:
        told = {
            nodeenv.NODE: "n",
            nodeenv.DRIVER_URL: url,
            nodeenv.DRIVER_CA: ca,
            nodeenv.TOKEN_FILE: str(self._folder / "token"),
            nodeenv.SCRATCH: str(self._folder),
            nodeenv.MEMORY: str(self._folder),
        }
        if self.process == "executor":
            executor = executor_link.Link(executor_settings.read(told), Nobody())
            executor._waits = self._no_wait  # type: ignore[assignment]
            await executor.run()
        hello = Hello(protocol=PROTOCOL_VERSION, process="daemon", node="n", incarnation="i")
        daemon = daemon_link.Link(daemon_settings.read(told), hello)
        daemon._waits = self._no_wait  # type: ignore[assignment]
        await daemon.run(_ignore)

    def _no_wait(self) -> Iterator[float]:
        while True:
            self.tries += 1
            yield 0.0


async def _ignore(message: object) -> None: ...


Start = Callable[[str, str], None]


@pytest.fixture(params=["executor", "daemon"])
def node(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(request.param, tmp_path, monkeypatch)


@pytest.fixture
async def start(node: Node) -> AsyncIterator[Start]:
    """Have the link run, with an address and a CA."""
    running: list[asyncio.Task[None]] = []
    yield lambda url, ca: running.append(asyncio.create_task(node.run(url, ca)))
    for each in running:
        each.cancel()
        with suppress(asyncio.CancelledError):
            await each


class Driver:
    """A server that welcomes whoever comes, and the tokens that it was sent."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.url = ""

    async def welcome(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        self.tokens.append(connection.request.headers["Authorization"])
        await connection.recv()
        await connection.send(encode(Welcome(term=1)))
        await connection.wait_closed()


@pytest.fixture
async def driver() -> AsyncIterator[Driver]:
    made = Driver()
    async with serve(made.welcome, "127.0.0.1", 0, ssl=made.context) as server:
        made.url = f"https://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
        yield made


@pytest.mark.parametrize(
    ("show_it", "said"),
    [
        (lambda context: show(context, STRANGER), "unable to get local issuer certificate"),
        (lambda context: show(context, CA, "10.0.0.1"), "IP address mismatch"),
        (lambda context: show(context, CA, at=NOW - 30 * DAY), "certificate has expired"),
    ],
    ids=["a stranger's CA", "another's name", "expired"],
)
async def test_who_is_not_trusted_gets_no_token_and_is_asked_again_until_he_is(
    node: Node, driver: Driver, start: Start, show_it: Callable[[ssl.SSLContext], Any], said: str
) -> None:
    show_it(driver.context)
    start(driver.url, CA.certificate)
    await eventually_async(lambda: node.tries > 3, "it tries again")
    assert driver.tokens == []
    assert f"its certificate is not trusted: {said}" in node.log.lines[0]
    if node.process == "executor":
        assert len(node.log.lines) == 1, "the same reason is said once"
    show(driver.context, CA)
    await eventually_async(lambda: driver.tokens == ["Bearer the node's token"])


async def test_a_second_reason_is_said_as_the_first_was(
    node: Node, driver: Driver, start: Start
) -> None:
    show(driver.context, STRANGER)
    start(driver.url, CA.certificate)
    await eventually_async(lambda: node.log.lines)
    show(driver.context, CA, at=NOW - 30 * DAY)
    await eventually_async(lambda: "has expired" in node.log.lines[-1])
    show(driver.context, CA)
    await eventually_async(lambda: driver.tokens)
