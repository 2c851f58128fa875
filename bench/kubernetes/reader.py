"""Keeps a copy of all nodes and of Holdfast's pods, and says what that costs this process.

Started by `sides`: `python -m holdfast.bench.kubernetes.reader ours|typed KUBECONFIG`. A line of
JSON once all is listed, then one for each line on standard input, until that ends. `ours` is the
driver's reflector; `typed` lists and watches as the documentation of `kubernetes.aio` has it, one
dictionary a kind.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from kubernetes.aio import client as typed
from kubernetes.aio.config import load_kube_config
from kubernetes.aio.watch import Watch

from holdfast.bench.kubernetes import fleet
from holdfast.bench.kubernetes.usage import usage_of
from holdfast.driver.adapters.kubernetes import names
from holdfast.driver.adapters.kubernetes.cluster import OF_NODES, OF_PODS
from holdfast.kit.together import until_first
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.kubeapi.reflector import Reflector, Synced

SELECTOR = fleet.selecting(names.MANAGER)
KINDS = 2


class Copy:
    """What is known: `lists` that were read to their end, `events` since."""

    def __init__(self) -> None:
        self.lists = 0
        self.events = 0
        self.objects = 0
        self.news = asyncio.Event()

    def listed(self, objects: int) -> None:
        self.lists += 1
        self.objects += objects
        self.news.set()


async def ours(kubeconfig: Path, copy: Copy, begin: Callable[[], None]) -> None:
    """The driver's reflectors."""
    async with Client.from_kubeconfig(kubeconfig, user_agent="bench-reader") as client:
        where = paths.pods(fleet.NAMESPACE)
        nodes = Reflector(client, paths.nodes(), without=OF_NODES)
        pods = Reflector(client, where, without=OF_PODS, labelSelector=SELECTOR)

        async def follow(reflector: Reflector) -> None:
            synced = False
            async for change in reflector.changes():
                if isinstance(change, Synced):
                    synced = True
                    copy.listed(len(reflector.store))
                elif synced:
                    copy.events += 1

        begin()
        await until_first(follow(nodes), follow(pods))


async def typically(kubeconfig: Path, copy: Copy, begin: Callable[[], None]) -> None:
    """A typed list, then a typed watch of each kind."""
    await load_kube_config(str(kubeconfig))  # type: ignore[no-untyped-call]
    async with typed.ApiClient() as transport:
        api = typed.CoreV1Api(transport)

        async def follow(lists: Any, *where: str, **query: str) -> None:
            found = await lists(*where, **query)
            store = {each.metadata.name: each for each in found.items}
            copy.listed(len(store))
            query["resource_version"] = found.metadata.resource_version
            async with Watch().stream(lists, *where, **query) as events:  # type: ignore[no-untyped-call]
                async for event in events:
                    told = event["object"]
                    store[told.metadata.name] = told
                    if event["type"] == "DELETED":
                        del store[told.metadata.name]
                    copy.events += 1

        begin()
        pods = follow(api.list_namespaced_pod, fleet.NAMESPACE, label_selector=SELECTOR)
        await until_first(follow(api.list_node), pods)


READERS: dict[str, Callable[[Path, Copy, Callable[[], None]], Coroutine[Any, Any, None]]] = {
    "ours": ours,
    "typed": typically,
}


async def _say(copy: Copy, began: list[float]) -> None:
    """Once all is listed, then whenever it is asked, until nobody asks."""
    while copy.lists < KINDS:
        await copy.news.wait()
        copy.news.clear()
    took_s, before_bytes = time.monotonic() - began[0], began[1]
    asked: asyncio.Queue[bytes] = asyncio.Queue()
    here = sys.stdin.fileno()
    asyncio.get_running_loop().add_reader(here, lambda: asked.put_nowait(os.read(here, 64)))
    while True:
        used = usage_of(os.getpid())
        said = {
            "listed_s": took_s,
            "objects": copy.objects,
            "memory_bytes": used.memory_bytes - before_bytes,
            "cpu_s": time.process_time(),  # in ns: a few events take less than a tick of /proc
            "events": copy.events,
        }
        sys.stdout.write(f"{json.dumps(said)}\n")
        sys.stdout.flush()
        if not await asked.get():
            return


async def _main(kind: str, kubeconfig: Path) -> None:
    copy, began = Copy(), [0.0, 0.0]

    def begin() -> None:
        began[:] = time.monotonic(), usage_of(os.getpid()).memory_bytes

    await until_first(READERS[kind](kubeconfig, copy, begin), _say(copy, began))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2])))
