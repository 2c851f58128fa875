"""A namespace with two TrainingJobs and two nodes on a real API server, and clusters that see them.

Used by tests of the cluster's adapter; the fixture is `trial`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from made_nodes import MadeNodes
from waiting import DEADLINE_S

from holdfast.driver.adapters.kubernetes import names
from holdfast.driver.adapters.kubernetes.cluster import KubernetesCluster
from holdfast.driver.adapters.kubernetes.objects import TrainingJobs
from holdfast.driver.ports import PermanentError
from holdfast.kit.clock import SystemClock
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.protocol.nodeenv import Drivers

NODES = ("contract-1", "contract-2")
JOBS = ("one", "other")


def training_job(name: str, **pod: Any) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": {"command": ["true"], "pod": {"image": "holdfast-executor:1", **pod}},
    }


class Trial:
    """A namespace with two TrainingJobs, two nodes, and clusters that see them."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.nodes = MadeNodes(client, *NODES, mark=namespace)

    @asynccontextmanager
    async def cluster(
        self,
        held: dict[str, str] | None = None,
        present: Sequence[str] = (),
        *,
        placed_within_s: float = DEADLINE_S,
    ) -> AsyncIterator[KubernetesCluster]:
        """As one driver has it; `held`, `present`: what the driver's journal says."""
        objects = TrainingJobs(self.client, names.Jobs(self.namespace))
        made = KubernetesCluster(
            self.client,
            objects,
            clock=SystemClock(),
            drivers=Drivers(["http://127.0.0.1:1"]),
            namespace=self.namespace,
            node_selector=f"made={self.namespace}",
            placed_within_s=placed_within_s,
        )
        made.expect(held or {}, present)

        async def follow() -> None:
            async for _ in objects.changes():
                pass

        running = [asyncio.create_task(made.run()), asyncio.create_task(follow())]
        yield made
        for task in running:
            task.cancel()
        await asyncio.wait(running)

    async def pods(self) -> dict[str, dict[str, Any]]:
        """Those that are to stay, by name."""
        found = (await self.client.get(paths.pods(self.namespace)))["items"]
        return {
            each["metadata"]["name"]: each
            for each in found
            if "deletionTimestamp" not in each["metadata"]
        }

    async def delete(self, pod: str) -> None:
        await self.client.delete(paths.pods(self.namespace, pod), grace_s=0)


async def there(client: Client, at: str) -> bool:
    try:
        await client.get(at)
    except PermanentError:
        return False
    return True


def spec_of(trial: Trial) -> bytes:
    """Of job "one", as it was accepted."""
    metadata = {"name": "one", "namespace": trial.namespace}
    return json.dumps({**training_job("one"), "metadata": metadata}).encode()
