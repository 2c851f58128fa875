"""The keeper of nodes of this machine, for `holdfast run`: `python -m holdfast.keeper.main`."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.keeper import lock, serve
from holdfast.keeper import state as states
from holdfast.keeper.factory import LocalNodes, NodeNeeds, free_port
from holdfast.keeper.memory import sweep_memory
from holdfast.keeper.settings import Settings, read
from holdfast.keeper.state import KeeperState, NodeRecord
from holdfast.kit.logs import LazyLogger
from holdfast.protocol import exitcodes

AddressOf = Callable[[int], str]


def new_cluster(settings: Settings, lease_host: str, address_of: AddressOf) -> KeeperState:
    """A state with all nodes, none of which runs yet; addresses by place, counted from 0."""
    state = states.new_state(settings.run_id, lease_host)
    state.probe_port = free_port()
    for place in range(settings.nodes):
        name = f"node-{place + 1}"
        state.nodes[name] = NodeRecord(
            name=name,
            folder=str(settings.state / "nodes" / name),
            memory="",
            address=address_of(place),
            interface="lo",
            rack=f"rack-{place * settings.racks // settings.nodes + 1}",
        )
    return state


def loopback(place: int) -> str:
    """An address of this machine for each node, so that each may listen on the same port."""
    return f"127.0.{place // 250}.{place % 250 + 1}"


Commands = dict[str, list[str]]


def main(arguments: Sequence[str] | None = None, commands: Commands | None = None) -> int:
    """Keep nodes until told to end; an exit code. `commands`: other processes than ours."""
    settings = read(arguments)
    if sys.platform != "linux":
        sys.stderr.write(f"holdfast keeps nodes on Linux only; this is {sys.platform}.\n")
        return exitcodes.UNAVAILABLE
    LazyLogger.process = "keeper"
    try:
        with lock.locked(settings.state):
            return _keep(settings, commands)
    except (lock.Busy, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return exitcodes.TRY_AGAIN if isinstance(error, lock.Busy) else exitcodes.CONFIGURATION


def _keep(settings: Settings, commands: Commands | None) -> int:
    root = Path(settings.state)
    state = states.load(root) or new_cluster(settings, "127.0.0.1", loopback)
    states.save(root, state)
    serve.mark_run(state.run_id)
    sweep_memory()
    needs = NodeNeeds(
        root=root, driver=settings.driver, token_file=settings.token_file, commands=commands
    )
    return serve.run(root, state, LocalNodes(needs), settings.die_with_fd)
