"""A node's daemon as a process: `python -m holdfast.daemon.main`, by its host or the kubelet."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from uuid import uuid4

from holdfast.daemon.loop import Daemon
from holdfast.daemon.settings import read
from holdfast.kit.clock import SystemClock
from holdfast.kit.lifeline import lifeline
from holdfast.kit.logs import LazyLogger
from holdfast.kit.owned import when_owner_is_gone
from holdfast.protocol import exitcodes
from holdfast.protocol.nodeenv import BadSettings


async def _run() -> None:
    daemon = Daemon(read(), SystemClock(), uuid4().hex, os.getppid())
    running = asyncio.create_task(daemon.run())
    if (host := lifeline()) is not None:
        when_owner_is_gone(host, running.cancel)
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    ending = asyncio.create_task(_end(daemon, told, running))
    with suppress(asyncio.CancelledError):
        await running
    ending.cancel()


async def _end(daemon: Daemon, told: asyncio.Event, running: asyncio.Task[None]) -> None:
    """Once it is told to, with its last words."""
    await told.wait()
    try:
        await daemon.last_words()
    finally:
        running.cancel()


def run() -> int:
    """Watch until told to end or the host is gone. The exit code, see `protocol.exitcodes`."""
    LazyLogger.process = "daemon"
    try:
        asyncio.run(_run())
    except BadSettings as error:
        print(f"holdfast daemon: {error}", file=sys.stderr)  # noqa: T201 for whoever started it
        return exitcodes.CONFIGURATION
    return exitcodes.OK
