"""A way from the switch to a TCP port of this machine (the API server's): a Unix socket here.

Started by the kubelet's main outside the nodes' namespaces, which cannot reach this machine's
loopback; the gateway leads to it. A process of its own, for a network does not end with a kubelet.
"""

import argparse
import asyncio
import contextlib
import signal
from pathlib import Path

from holdfast.lab.emulator.gateway import join


async def serve(at: Path, host: str, port: int, die_with_fd: int) -> None:
    """Relay until told to end, or until our owner is gone."""
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ending.set)
    loop.add_reader(die_with_fd, ending.set)  # what follows is short: it stays readable

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            outer = await asyncio.open_connection(host, port)
        except OSError:
            writer.close()  # no API server there: whoever asked tries again
            return
        with contextlib.suppress(asyncio.CancelledError):  # we end, and all relays with us
            await join((reader, writer), outer)

    at.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(relay, at)
    at.chmod(0o600)
    await ending.wait()
    server.close()
    at.unlink(missing_ok=True)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--at", type=Path, required=True)
    options.add_argument("--host", required=True)
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--die-with-fd", type=int, required=True)
    given = options.parse_args()
    asyncio.run(serve(given.at, given.host, given.port, given.die_with_fd))


if __name__ == "__main__":
    main()
