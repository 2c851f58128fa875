"""The keeper's loop: listens, ticks, and ends everything on a signal or when its owner is gone.

Called by `keeper.main` and by the emulator's main, which differ in the factory of nodes alone.
"""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

from holdfast.keeper import processes
from holdfast.keeper import state as states
from holdfast.keeper.factory import NodeFactory
from holdfast.keeper.keeper import Keeper
from holdfast.keeper.server import Api, LeasePort
from holdfast.keeper.state import KeeperState
from holdfast.kit.owned import when_owner_is_gone
from holdfast.protocol import exitcodes

TICK_S = 0.1


def mark_run(run_id: str) -> None:
    """Carry the run's mark in our own environment, which only an exec can change for others."""
    if os.environ.get(processes.RUN_MARK) != run_id:
        os.environ[processes.RUN_MARK] = run_id
        os.execve(sys.executable, sys.orig_argv, os.environ)


def run(root: Path, state: KeeperState, factory: NodeFactory, die_with_fd: int | None) -> int:
    """Keep the nodes until told to end; an exit code."""
    processes.become_subreaper()
    keeper = Keeper(root, state, factory)
    return asyncio.run(_run(keeper, die_with_fd))


async def _run(keeper: Keeper, die_with_fd: int | None) -> int:
    loop = asyncio.get_running_loop()
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    if die_with_fd is not None:
        when_owner_is_gone(die_with_fd, ending.set)
    path = states.socket_path(keeper.root)
    transport = await _listen_for_leases(keeper)
    try:
        server = await Api(keeper).serve(path)
        keeper.start()
        while not ending.is_set():
            keeper.tick()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ending.wait(), TICK_S)
        server.close()
    finally:
        keeper.close()
        transport.close()
        path.unlink(missing_ok=True)
    return exitcodes.OK


async def _listen_for_leases(keeper: Keeper) -> asyncio.DatagramTransport:
    """Bind the port that the hosts know, or any free one the first time."""
    state = keeper.state
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: LeasePort(keeper), local_addr=(state.lease_host, state.lease_port)
    )
    state.lease_port = transport.get_extra_info("sockname")[1]
    return transport
