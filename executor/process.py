"""The executor's process: `python -m holdfast.executor.main`, started by the node's host.

Wires settings, loop and signals, and no more.
"""

import asyncio
import signal
import sys
from contextlib import suppress

from holdfast.executor.loop import Executor
from holdfast.executor.settings import Settings, read
from holdfast.kit.clock import SystemClock
from holdfast.kit.lifeline import lifeline
from holdfast.kit.logs import LazyLogger
from holdfast.kit.owned import when_owner_is_gone
from holdfast.protocol import exitcodes
from holdfast.protocol.nodeenv import LEAVE_SIGNAL, BadSettings


def run() -> int:
    """Run until SIGTERM, SIGINT, or the end of the host; the exit code.

    After SIGUSR1 until nothing is wanted here any more.
    """
    try:
        settings = read()
    except BadSettings as error:
        print(f"executor: {error}", file=sys.stderr)  # noqa: T201 - before there is a log
        return exitcodes.CONFIGURATION
    LazyLogger.process = f"executor {settings.node.name}"
    asyncio.run(_serve(settings))
    return exitcodes.OK


async def _serve(settings: Settings) -> None:
    loop = asyncio.get_running_loop()
    executor = Executor(settings, SystemClock())
    work = asyncio.create_task(executor.run())

    def end() -> None:
        if not work.cancelling():  # a second word would cut its last sweep short
            work.cancel()

    if (host := lifeline()) is not None:
        when_owner_is_gone(host, end)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    loop.add_signal_handler(LEAVE_SIGNAL, executor.leave)
    with suppress(asyncio.CancelledError):
        await work
