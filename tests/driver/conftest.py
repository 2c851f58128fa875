"""Fixtures for the driver's tests."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI

from holdfast.driver.adapters.journal import SqlJournal
from holdfast.driver.adapters.journal_sqlite import open_sqlite
from holdfast.driver.main import Server, server_config


@pytest.fixture
def open_journal(tmp_path: Path) -> Iterator[Callable[[str], SqlJournal]]:
    opened: list[SqlJournal] = []

    def open_named(name: str = "journal") -> SqlJournal:
        opened.append(open_sqlite(tmp_path / f"{name}.sqlite", reserve_bytes=1 << 16))
        return opened[-1]

    yield open_named
    for each in opened:
        each.close()


@pytest.fixture
def serve() -> Callable[[FastAPI], AbstractAsyncContextManager[str]]:
    """Serve an application as the driver does; gives `127.0.0.1:PORT`."""

    @asynccontextmanager
    async def serving(app: FastAPI) -> AsyncIterator[str]:
        listening = socket.create_server(("127.0.0.1", 0))
        server = Server(server_config(app))
        task = asyncio.create_task(server.serve([listening]))
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        await task

    return serving
