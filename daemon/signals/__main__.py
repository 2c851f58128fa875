"""Start of a node's signals: `python -m holdfast.daemon.signals --node NAME`, by its DaemonSet."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from holdfast.daemon.signals.loop import Signals
from holdfast.daemon.signals.settings import Settings, read
from holdfast.kit.clock import SystemClock
from holdfast.kit.logs import set_up_logs
from holdfast.protocol import exitcodes
from holdfast.protocol.nodeenv import BadSettings


async def _run(settings: Settings) -> None:
    running = asyncio.create_task(Signals(settings, SystemClock()).run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    with suppress(asyncio.CancelledError):
        await running


def main(arguments: Sequence[str] | None = None) -> int:
    """Tell until told to end. The exit code, see `protocol.exitcodes`."""
    set_up_logs("signals")
    try:
        settings = read(arguments)
    except BadSettings as error:
        print(f"holdfast signals: {error}", file=sys.stderr)  # noqa: T201 for whoever started it
        return exitcodes.CONFIGURATION
    asyncio.run(_run(settings))
    return exitcodes.OK


if __name__ == "__main__":
    sys.exit(main())
