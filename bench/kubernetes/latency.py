"""How soon what the cluster says of a node is an entry of the journal, and a killed driver is back.

Called by `turns`.
"""

import time

from holdfast.bench.kubernetes import fleet
from holdfast.bench.kubernetes.operator import Operator
from holdfast.bench.kubernetes.stage import Stage
from holdfast.driver.core.events import NodeVanished
from holdfast.driver.core.state.node import Node
from holdfast.driver.ports import Entry
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client, Patch

WITHIN_S = 30.0
NOT_READY = {
    "type": "Ready",
    "status": "False",
    "reason": "KubeletNotReady",
    "message": "said by the benchmark",
}


async def conditions_s(stage: Stage, operator: Operator, samples: int) -> list[float]:
    """From the write of a node's condition until the entry can be read, once for each of so many
    nodes. kwok says at once that the node is ready again.
    """
    free = [node.name for node in operator.state().nodes.values() if _is_free(node)]
    async with fleet.client_of(stage.plane.admin) as client:
        return [await _told_s(client, operator, name) for name in free[:samples]]


async def _told_s(client: Client, operator: Operator, name: str) -> float:
    after = operator.state().sequence

    def told(entry: Entry) -> bool:
        return isinstance(entry.event, NodeVanished) and entry.event.node == name

    began_s = time.monotonic()
    status = {"status": {"conditions": [NOT_READY]}}
    await client.patch(paths.nodes(name, "status"), status, Patch.STRATEGIC)
    operator.entry(told, after, WITHIN_S)
    return time.monotonic() - began_s


def _is_free(node: Node) -> bool:
    return node.present and node.job is None and node.name.startswith(fleet.FAKES)


def back_s(operator: Operator, executors: int) -> tuple[float, float]:
    """SIGKILL to the driver: seconds until it is ready again, and until all executors are back."""
    term = operator.state().term
    began_s = time.monotonic()
    operator.kill()
    operator.ready()
    ready_s = time.monotonic() - began_s
    operator.has(
        lambda state: (
            state.term > term and sum(node.connected for node in state.nodes.values()) >= executors
        )
    )
    return ready_s, time.monotonic() - began_s
