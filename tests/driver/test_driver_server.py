"""Who is connected when a driver serves no more, however it came to that."""

import asyncio
import socket
from contextlib import suppress

import pytest
from starlette.types import Receive, Scope, Send
from waiting import DEADLINE_S
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from holdfast.driver.serve.server import Server


@pytest.mark.parametrize("told", [True, False], ids=["told to end", "cancelled"])
async def test_nobody_stays_connected_to_a_server_that_is_over(told: bool) -> None:
    over = asyncio.Event()

    async def busy(scope: Scope, receive: Receive, send: Send) -> None:
        """Takes a WebSocket, and goes on when it is told to end."""
        await receive()
        await send({"type": "websocket.accept"})
        while not over.is_set():
            with suppress(asyncio.CancelledError):
                await over.wait()

    listening = socket.create_server(("127.0.0.1", 0))
    port, server = listening.getsockname()[1], Server(busy)
    serving = asyncio.create_task(server.serve([listening]))
    try:
        async with connect(f"ws://127.0.0.1:{port}/", proxy=None, close_timeout=0) as client:
            if told:
                server.should_exit = True
            else:
                serving.cancel()
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(client.recv(), DEADLINE_S)
        with pytest.raises(ConnectionRefusedError):
            await connect(f"ws://127.0.0.1:{port}/", proxy=None)
    finally:
        over.set()
        await asyncio.wait([serving])
