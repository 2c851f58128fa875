"""Objects in bulk, as plain calls to an API server: fake nodes, and pods of nobody's job.

Called by the turns. Nodes are as large as real ones, with the images that a kubelet lists.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from holdfast.driver.adapters.kubernetes import names, podspec
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client, Limits
from holdfast.kubeapi.errors import NotFound
from holdfast.lab.kubernetes.fake import FAKE
from holdfast.protocol.nodeenv import Drivers

Object = dict[str, Any]
T = TypeVar("T")

NAMESPACE = "default"
FAKES = "fake-"
"""Names of fake nodes begin with it."""
NODES_A_RACK = 20
IMAGES = 50
"""A kubelet lists so many by default (nodeStatusMaxImages)."""
AT_ONCE = Limits().calls_at_once
"""Calls at a time: as many as the driver makes."""
BARE = "bench-bare"
"""Manager of the pods that are of no job."""


@asynccontextmanager
async def client_of(kubeconfig: Path) -> AsyncIterator[Client]:
    """A client that waits for nothing but the server."""
    limits = Limits(calls_per_s=1e6, burst=1_000_000, calls_at_once=AT_ONCE)
    async with Client.from_kubeconfig(kubeconfig, user_agent="bench", limits=limits) as client:
        yield client


async def for_each(things: Iterable[T], call: Callable[[T], Awaitable[object]]) -> None:
    """Make the call for each thing, AT_ONCE at a time."""
    left = iter(things)

    async def work() -> None:
        for thing in left:
            await call(thing)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())


def node_name(place: int) -> str:
    return f"{FAKES}{place:05}"


def node(place: int) -> Object:
    """A Node as its kubelet would register it, for kwok to keep."""
    name = node_name(place)
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        names.RACK: f"{FAKES}{place // NODES_A_RACK:04}",
    }
    holds = {"cpu": "96", "memory": "2Ti", "pods": "110", "nvidia.com/gpu": "8"}
    images = [
        {"names": [f"registry.example/team-{each}/image-{each}:v{each}"], "sizeBytes": 10**9}
        for each in range(IMAGES)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": FAKE},
        "status": {"capacity": holds, "allocatable": holds, "images": images},
    }


def bare_pod(job: Object, on: str, slot: int) -> Object:
    """The pod that the job would have on this node, without the job."""
    order = podspec.Order(job, on, slot, 1, Drivers(["http://192.0.2.1:1"]))
    made = podspec.manifest(order)
    del made["metadata"]["ownerReferences"]
    made["metadata"]["name"] = f"bare-{slot}"
    made["metadata"]["labels"]["app.kubernetes.io/managed-by"] = BARE
    return made


def selecting(manager: str) -> str:
    """A label selector for the pods of a manager."""
    return f"app.kubernetes.io/managed-by={manager}"


async def create_nodes(client: Client, places: Sequence[int]) -> None:
    await for_each(places, lambda place: client.create(paths.nodes(), node(place)))


async def delete_pods(client: Client, gone: Iterable[str]) -> None:
    """At once, by name; none of them is on a node that would have a say."""

    async def delete(name: str) -> None:
        try:
            await client.delete(paths.pods(NAMESPACE, name), grace_s=0)
        except NotFound:
            return

    await for_each(gone, delete)
