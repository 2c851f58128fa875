"""Node objects without machines: made, kept Ready and removed through a real API server.

Used by tests of what the driver makes of nodes and of pods that are bound to them; nothing runs.
"""

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Any

from waiting import DEADLINE_S, LOOK_S

from holdfast.driver.adapters.kubernetes import names
from holdfast.driver.ports import TemporaryError
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client, Patch

RENEW_S = 2.0
"""Of a lease that is over after 16 s on the tests' control planes."""


class MadeNodes:
    """Nodes with the label `made=MARK`. `keep` has to run for as long as they are to be Ready."""

    def __init__(self, client: Client, *nodes: str, mark: str) -> None:
        self._client = client
        self.nodes = list(nodes)
        self._labels = {names.RACK: "rack-1", "made": mark}
        self._said: dict[str, str] = {}  # status of Ready by node
        self._resources = {
            "cpu": "8",
            "memory": "8Gi",
            "pods": "110",
        }  # those of earlier tests are still ending

    async def make(self) -> None:
        for node in self.nodes:
            body = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": node, "labels": self._labels},
            }
            await self._client.create(paths.nodes(), body)
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": node, "namespace": "kube-node-lease"},
                "spec": {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": micro()},
            }
            await self._client.create(paths.leases("kube-node-lease"), lease)
            await self.ready(node)
        for node in self.nodes:  # all are awaited at once: nobody renews a lease meanwhile
            await self._settled(node)

    async def ready(self, node: str, status: str = "True") -> None:
        """Say so, as its kubelet would."""
        self._said[node] = status
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        said: dict[str, Any] = {
            "type": "Ready",
            "status": status,
            "reason": "Made",
            "message": f"the test says {status}",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        told = {"conditions": [said], "capacity": self._resources, "allocatable": self._resources}
        await self._client.patch(paths.nodes(node, "status"), {"status": told}, Patch.STRATEGIC)

    async def _settled(self, node: str) -> None:
        """Return once the cluster has taken off the taint of a node that is not Ready yet."""
        async with asyncio.timeout(DEADLINE_S):
            while (await self._client.get(paths.nodes(node)))["spec"].get("taints"):
                await asyncio.sleep(LOOK_S)

    async def keep(self) -> None:
        """Renew their leases, and say again what was said, for ever, as kubelets do.

        A machine that is busy for longer than a lease has all of them be Unknown for a while.
        """
        while True:
            for node in self.nodes:
                with contextlib.suppress(TemporaryError):  # the API server may be away for a test
                    await self._renew(node)
            await asyncio.sleep(RENEW_S)

    async def _renew(self, node: str) -> None:
        at = paths.leases("kube-node-lease", node)
        await self._client.patch(at, {"spec": {"renewTime": micro()}})
        seen = (await self._client.get(paths.nodes(node)))["status"]["conditions"]
        if self._said[node] not in [each["status"] for each in seen if each["type"] == "Ready"]:
            await self.ready(node, self._said[node])

    async def remove(self) -> None:
        for node in self.nodes:
            await self._client.delete(paths.nodes(node))
            await self._client.delete(paths.leases("kube-node-lease", node))


def micro() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
