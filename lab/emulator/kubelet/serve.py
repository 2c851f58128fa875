"""The kubelet of all emulated nodes: one process, one watch of pods for all, one agent a node.

Started and started again by `main`. Reads from the keeper's state which nodes there are; a node
that was lost loses its agent. Ends with its owner, and leaves the nodes' containers as they run.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path

from holdfast.keeper import processes
from holdfast.keeper import state as states
from holdfast.keeper.factory import with_our_python
from holdfast.keeper.state import KeeperState, NodeRecord
from holdfast.kit.files import write_atomic
from holdfast.kit.logs import LazyLogger, set_up_logs
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.kubeapi.reflector import Reflector, Removed, Synced
from holdfast.lab.emulator import namespaces
from holdfast.lab.emulator.kubelet import services
from holdfast.lab.emulator.kubelet.agent import Agent
from holdfast.lab.emulator.kubelet.images import Images, pushed_file
from holdfast.lab.emulator.kubelet.knobs import KnobsOf
from holdfast.lab.emulator.kubelet.link import USER_AGENT, NodeClient
from holdfast.lab.emulator.kubelet.logs import Logs
from holdfast.lab.emulator.kubelet.nodeobject import Shape
from holdfast.lab.emulator.kubelet.preparing import Surroundings
from holdfast.lab.emulator.kubelet.runtimes import RuntimeOf
from holdfast.lab.emulator.namespaces import Kind
from holdfast.lab.emulator.nodes import API_NAME, API_PORT
from holdfast.protocol import nodeenv

LOOK_S = 0.5
"""How often the keeper's state is read."""
STARTS_WITHIN_S = 30.0

log = LazyLogger()


class Kubelet:
    """The agents by node, kept to what the keeper says there is."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._agents: dict[str, Agent] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._inits: dict[str, int] = {}
        self._logs = Logs(given.kubeconfig_dir, self._agents)

    async def run(self, ending: asyncio.Event) -> None:
        """Keep all nodes until `ending`."""
        config = self._given.kubeconfig_dir / "kubelet.yaml"
        async with (
            Client.from_kubeconfig(config, user_agent=USER_AGENT) as client,
            self._logs.served(),
        ):
            said = {"pid": os.getpid(), "port": self._logs.port}
            write_atomic(self._given.state / "kubelet.json", json.dumps(said).encode())
            watching = asyncio.create_task(self._watch(client))
            naming = asyncio.create_task(services.follow(client, self._given.state))
            try:
                while not ending.is_set():
                    self._follow(states.load(self._given.state))
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_S):
                            await ending.wait()
            finally:
                await _cancel(watching, naming, *self._tasks.values())

    async def _watch(self, client: Client) -> None:
        pods = Reflector(client, paths.pods(), fieldSelector="spec.nodeName!=")
        async for change in pods.changes():
            if not isinstance(change, Synced):
                agent = self._agents.get(change.object["spec"].get("nodeName", ""))
                if agent is not None:
                    agent.hint(change.object, isinstance(change, Removed))

    def _follow(self, state: KeeperState | None) -> None:
        """An agent for each node that lives, and for no other."""
        nodes = state.nodes if state else {}
        for name, task in list(self._tasks.items()):
            if task.done():
                log.error("an agent ended", node=name, why=repr(task.exception()))
            if task.done() or self._inits[name] != nodes[name].host_pid:
                task.cancel()
                del self._tasks[name], self._agents[name]
        for name, record in nodes.items():
            if record.host_pid and name not in self._tasks and state is not None:
                self._inits[name] = record.host_pid
                self._agents[name] = self._agent(state, record)
                self._tasks[name] = asyncio.create_task(self._agents[name].run())

    def _agent(self, state: KeeperState, record: NodeRecord) -> Agent:
        given, folder = self._given, Path(record.folder)
        config = given.kubeconfig_dir / f"{record.name}.yaml"
        around = Surroundings(
            address=record.address,
            scratch=folder / "scratch",
            logs=folder / "pods",
            environment=_environment(state, record),
            client=NodeClient(config, record.host_pid),
            runtime=RuntimeOf(folder),
            knobs=KnobsOf(folder),
            images=Images(given.image, pushed_file(given.state)),
            memory_bytes=given.memory_mib << 20,
            node_bytes=given.memory_gib << 30,
            token_oldest_s=given.token_oldest_s,
            restart_base_s=given.restart_base_s,
        )
        shape = Shape(given.cpus, given.memory_gib, given.gpus, given.lease_s, state.run_id)
        return Agent(record, around, shape, self._logs.port)


def _environment(state: KeeperState, record: NodeRecord) -> dict[str, str]:
    """What every container has. The marks are how a sweep, and the keeper, know their own."""
    return {
        "PATH": with_our_python("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        "HOME": "/root",
        "KUBERNETES_SERVICE_HOST": API_NAME,
        "KUBERNETES_SERVICE_PORT": str(API_PORT),
        processes.RUN_MARK: state.run_id,
        nodeenv.NODE: record.name,
    }


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    """End them all. Asked again and again: before Python 3.13 a cancellation may be forgotten."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=LOOK_S)


async def _until_told(given: argparse.Namespace) -> None:
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ending.set)

    def our_owner_is_gone() -> None:
        loop.remove_reader(given.die_with_fd)  # its end is readable for ever
        ending.set()

    if given.die_with_fd is not None:
        loop.add_reader(given.die_with_fd, our_owner_is_gone)
    await Kubelet(given).run(ending)


def enter_users_of(state: KeeperState) -> None:
    """Where nodes are made without root: become who may enter their networks.

    Has to be done before there is a second thread.
    """
    if state.kind.startswith(Kind.USER):
        namespaces.enter(state.switch_pid, "user")


def main(given: argparse.Namespace) -> None:
    """Keep the nodes of `given.state`, which has to be there."""
    set_up_logs("kubelet")
    state = states.load(given.state)
    if state is None or not state.switch_pid:
        raise SystemExit(f"--state: {given.state} has no cluster yet")
    enter_users_of(state)
    asyncio.run(_until_told(given))
