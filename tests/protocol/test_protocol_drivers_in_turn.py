"""A node that is told of several drivers, and whose token changes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from ports import free_port
from waiting import DEADLINE_S
from websockets.asyncio.server import ServerConnection, serve

from holdfast.daemon import link as of_daemon
from holdfast.daemon import settings as daemon_settings
from holdfast.executor import link as of_executor
from holdfast.executor import settings as executor_settings
from holdfast.protocol import nodeenv
from holdfast.protocol.messages import Hello, Observed, Welcome
from holdfast.protocol.version import PROTOCOL_VERSION
from holdfast.protocol.wire import encode

TOKENS = ("the first token", "the second token")


def hello(process: Any) -> Hello:
    return Hello(protocol=PROTOCOL_VERSION, process=process, node="node-7", incarnation="i")


class Served:
    """What an executor's link asks of the executor."""

    def hello(self) -> Hello:
        return hello("executor")

    def observe(self) -> Observed:
        return Observed(node="node-7", incarnation="i", sequence=0, generation=0, epoch=0)

    def welcomed(self, welcome: Any) -> None: ...


async def _received(_: object) -> None:
    """Nothing is made of what the driver says."""


async def run_executor(environment: dict[str, str]) -> None:
    served: Any = Served()
    await of_executor.Link(executor_settings.read(environment), served).run()


async def run_daemon(environment: dict[str, str]) -> None:
    await of_daemon.Link(daemon_settings.read(environment), hello("daemon")).run(_received)


@contextlib.asynccontextmanager
async def second_driver(port: int, used: list[str], token: Path) -> AsyncIterator[None]:
    """Welcomes whoever comes, notes the token, changes it, and hangs up."""

    async def welcome(connection: ServerConnection) -> None:
        assert connection.request is not None
        used.append(connection.request.headers["Authorization"].removeprefix("Bearer "))
        await connection.recv()
        await connection.send(encode(Welcome(term=1, heartbeat_period_s=0.5)))
        token.write_text(TOKENS[1])

    async with serve(welcome, "127.0.0.1", port, compression=None):
        yield


@pytest.mark.parametrize("run", [run_executor, run_daemon])
async def test_drivers_are_tried_in_turn_each_time_with_the_newest_token(
    run: Callable[[dict[str, str]], Any], tmp_path: Path
) -> None:
    token, port, used = tmp_path / "token", free_port(), list[str]()
    token.write_text(TOKENS[0])
    environment = {
        nodeenv.NODE: "node-7",
        nodeenv.DRIVER_URL: f"http://127.0.0.1:1,http://127.0.0.1:{port}",
        nodeenv.TOKEN_FILE: str(token),
        nodeenv.SCRATCH: str(tmp_path),
        nodeenv.MEMORY: str(tmp_path),
    }
    async with asyncio.timeout(DEADLINE_S), second_driver(port, used, token):
        running = asyncio.create_task(run(environment))
        while len(used) < 2:
            await asyncio.sleep(0.005)
        running.cancel()
        await asyncio.wait([running])
    assert tuple(used[:2]) == TOKENS
