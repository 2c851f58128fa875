"""All executors and daemons of a gang on fake nodes, in this one process.

Started by `operator`: `python -m holdfast.bench.kubernetes.simulate KUBECONFIG DRIVER_STATE`.
Begins when standard input says so, and ends with it. For each pod of Holdfast's that runs on a fake
node it asks for the token that the pod's volume would have, and connects with that.
"""

import asyncio
import contextlib
import json
import os
import ssl
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from holdfast.bench.kubernetes import fleet
from holdfast.bench.kubernetes.simulated import Driver, SimulatedNode
from holdfast.bench.kubernetes.stage import NICENESS
from holdfast.driver.adapters.kubernetes import names, pods, podspec
from holdfast.driver.adapters.kubernetes.retry import retry
from holdfast.kit.limits import raise_open_files
from holdfast.kit.tls import trusting
from holdfast.kit.together import until_first
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.kubeapi.errors import NotFound
from holdfast.kubeapi.reflector import Changed, Reflector, Removed
from holdfast.protocol.paths import RunPaths

Object = dict[str, Any]
ACCOUNT = "default"


class Fleet:
    """The simulated nodes, by the UIDs of their pods."""

    def __init__(self, client: Client, driver: Callable[[], Driver]) -> None:
        self._client = client
        self._driver = driver
        self._running: dict[str, asyncio.Task[None]] = {}

    async def run(self, begin: asyncio.Event) -> None:
        """For ever: a node for each pod that runs, from when `begin` is set."""
        await begin.wait()
        where = paths.pods(fleet.NAMESPACE)
        seen = Reflector(self._client, where, labelSelector=fleet.selecting(names.MANAGER))
        async with asyncio.TaskGroup() as group:
            async for change in seen.changes():
                match change:
                    case Changed(pod) if self._is_new(pod):
                        uid = pod["metadata"]["uid"]
                        self._running[uid] = group.create_task(self._node(pod))
                    case Removed(pod) if task := self._running.pop(pod["metadata"]["uid"], None):
                        task.cancel()

    def _is_new(self, pod: Object) -> bool:
        here = pod["spec"].get("nodeName", "").startswith(fleet.FAKES)
        return here and pods.ready(pod) and pod["metadata"]["uid"] not in self._running

    async def _node(self, pod: Object) -> None:
        try:
            answer = await retry(lambda: self._client.create(*_token_request(pod)))
        except NotFound:
            return  # the pod went meanwhile
        node = SimulatedNode(pods.node_of(pod), answer["status"]["token"], self._driver)
        await node.run()


def _token_request(pod: Object) -> tuple[str, Object]:
    """Where a TokenRequest is posted, and what: bound to the pod, for our audience alone."""
    metadata = pod["metadata"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
    spec = {
        "audiences": [names.AUDIENCE],
        "expirationSeconds": podspec.TOKEN_S,
        "boundObjectRef": bound,
    }
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return paths.service_accounts(metadata["namespace"], ACCOUNT, "token"), body


def _driver(state: RunPaths) -> Driver:
    """As it wrote it. Raises `OSError` while there is none."""
    url: str = json.loads(state.address.read_bytes())["http"]
    return Driver(url, _trusting(state.ca.read_text()) if url.startswith("https") else None)


@cache
def _trusting(ca: str) -> ssl.SSLContext:
    """One for all: it takes longer to make than a connection."""
    return trusting(ca)


async def _main(kubeconfig: Path, state: RunPaths) -> None:
    begin, over = asyncio.Event(), asyncio.Event()

    def told() -> None:
        (begin if os.read(sys.stdin.fileno(), 64) else over).set()

    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), told)
    async with fleet.client_of(kubeconfig) as client:
        try:
            await until_first(Fleet(client, lambda: _driver(state)).run(begin), _ended(over))
        finally:
            loop.remove_reader(sys.stdin.fileno())


async def _ended(over: asyncio.Event) -> None:
    await over.wait()


def _step_back() -> None:
    """Let everybody else go before. Where Linux has autogroups (sched(7)), sessions share the CPUs
    before their processes do, and this one is a session.
    """
    os.nice(NICENESS)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(f"{NICENESS}")


if __name__ == "__main__":
    _step_back()
    raise_open_files()
    asyncio.run(_main(Path(sys.argv[1]), RunPaths(Path(sys.argv[2]))))
