"""`python -m holdfast.lab.emulator.main`: an emulated cluster on this machine.

Finds out what nodes can be made of here, enters the switch's namespaces (new ones, or those that an
earlier keeper of this state left open), and runs the keeper with emulated nodes.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from holdfast.keeper import lock, processes, serve
from holdfast.keeper import state as states
from holdfast.keeper.factory import LocalNodes, NodeFactory, NodeNeeds
from holdfast.keeper.memory import sweep_memory
from holdfast.keeper.process import Commands, loopback, new_cluster
from holdfast.keeper.settings import Settings, common, parser
from holdfast.keeper.state import KeeperState
from holdfast.kit.logs import LazyLogger, set_up_logs
from holdfast.lab.emulator import cgroups, namespaces, nodes
from holdfast.lab.emulator.namespaces import Kind, Missing
from holdfast.protocol import exitcodes
from holdfast.protocol.nodeenv import Drivers

RUNTIME = {"runtime": [sys.executable, "-m", "holdfast.lab.emulator.kubelet.runtime"]}
"""What a node of Kubernetes runs instead of an executor and a daemon, which come in pods."""

log = LazyLogger()


def read(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    options = parser("python -m holdfast.lab.emulator.main")
    options.add_argument("--driver-socket", type=Path, required=True, help="driver.sock of its run")
    options.add_argument(
        "--api-socket",
        type=Path,
        help="the way to a Kubernetes API server, whose kubelet gives the nodes their work",
    )
    options.add_argument(
        "--relay",
        action="append",
        default=[],
        metavar="PORT=UNIX-SOCKET",
        help="what else nodes reach at 198.18.0.1:PORT",
    )
    options.add_argument("--memory-mib", type=int, default=1_024, help="memory of each node")
    options.add_argument("--scratch-mib", type=int, default=256, help="disk of each node")
    options.add_argument(
        "--gpus", type=int, default=0, help="GPUs of each node, as files: all well"
    )
    options.add_argument("--kind", type=Kind, choices=list(Kind), help="default: the best there is")
    return options.parse_args(arguments)


def main(arguments: Sequence[str] | None = None, commands: Commands | None = None) -> int:
    """Emulate a cluster until told to end; an exit code. `commands`: other processes than ours."""
    given = read(arguments)
    if sys.platform != "linux":
        sys.stderr.write(f"The emulated cluster needs Linux; this is {sys.platform}.\n")
        return exitcodes.UNAVAILABLE
    settings = common(given, driver=Drivers([f"unix:{given.driver_socket.resolve()}"]))
    set_up_logs("emulator")
    try:
        with lock.locked(settings.state):
            return _keep(given, settings, commands)
    except lock.Busy as busy:
        sys.stderr.write(f"{busy}\n")
        return exitcodes.TRY_AGAIN
    except Missing as missing:
        sys.stderr.write(f"{missing}\n")
        return exitcodes.UNAVAILABLE
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return exitcodes.CONFIGURATION


def _keep(given: argparse.Namespace, settings: Settings, commands: Commands | None) -> int:
    root = settings.state
    state = states.load(root) or _new_state(given, settings)
    states.save(root, state)
    serve.mark_run(state.run_id)
    needs = NodeNeeds(
        root=root,
        driver=settings.driver,
        token_file=None if given.api_socket else settings.token_file,
        commands=RUNTIME if given.api_socket else commands,
    )
    sweep(state)
    factory = _factory(given, settings, state, needs)
    return serve.run(root, state, factory, settings.die_with_fd)


def _new_state(given: argparse.Namespace, settings: Settings) -> KeeperState:
    kind, refusal = (given.kind, "") if given.kind else namespaces.best_kind()
    if kind is Kind.LOOPBACK:
        state = new_cluster(settings, "127.0.0.1", loopback)
        state.kind = f"{kind}, link faults are not possible: {refusal or 'asked for'}"
        return state
    state = new_cluster(settings, nodes.SWITCH_ADDRESS, nodes.address_of)
    state.kind = str(kind)
    return state


def _factory(
    given: argparse.Namespace, settings: Settings, state: KeeperState, needs: NodeNeeds
) -> NodeFactory:
    if state.kind.startswith(Kind.LOOPBACK):
        if given.api_socket:
            raise Missing(f"Nodes that run pods need namespaces, and these are {state.kind}.")
        return LocalNodes(needs, reboots=False)
    enter_switch(state, Kind(state.kind.partition(",")[0]))
    sizes = nodes.Sizes(given.memory_mib, given.scratch_mib, given.gpus)
    relays = {nodes.GATEWAY_PORT: given.driver_socket.resolve()}
    if given.api_socket:
        relays[nodes.API_PORT] = given.api_socket.resolve()
    for port, _, behind in (relay.partition("=") for relay in given.relay):
        relays[int(port)] = Path(behind).resolve()
    return nodes.EmulatedNodes(needs, relays, settings.state, sizes)


def enter_switch(state: KeeperState, kind: Kind) -> None:
    """Enter the switch that an earlier keeper left open, or make a new one, without nodes.

    What is left of the nodes is killed, and nothing else of the run: a driver carries its mark too.
    """
    pid = state.switch_pid
    if pid and processes.start_ticks(pid) == state.switch_start_ticks:
        namespaces.enter(pid, *(("user", "net") if kind is Kind.USER else ("net",)))
        log.info("found the switch as it was", gateway=pid)
        return
    for record in state.nodes.values():
        if record.host_pid:
            processes.kill_marked(state.run_id, HOLDFAST_NODE=record.name)
        record.host_pid, record.lost = 0, False
    namespaces.enter_new(kind)
    nodes.make_switch()


def sweep(state: KeeperState) -> None:
    """Remove what dead runs left: shared memory and cgroups. The rest went with their processes.

    Before a user namespace is entered: from there no process of another run is seen to live.
    """
    for folder in sweep_memory():
        log.info("swept the memory of a dead run", folder=str(folder))
    for group in cgroups.all_runs():
        run_id = group.name.removeprefix("holdfast-")
        if run_id != state.run_id and next(processes.marked(run_id), None) is None:
            cgroups.remove(group)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(os.EX_OK)
