"""Pods of others on the fake nodes: a fleet that is busy, and not everywhere in the same way. Pure.

Used by `busy`. Of ten nodes six have no room for a pod that wants all devices of its node: three
have none left, three have seven of eight. The other four have as many pods that want none.
"""

from typing import Any

from holdfast.bench.counts import BadSizes
from holdfast.bench.kubernetes import fleet

Object = dict[str, Any]

NAMESPACE = "others"
ON_A_NODE = 50
"""Pods of others on each node: what a kubelet takes (110) is not reached by them."""
TEN, FULL = 10, 6
DEVICES = "nvidia.com/gpu"
SMALL = {"cpu": "100m", "memory": "256Mi"}
TAKEN = (8, 8, 8, 1, 1, 1, 0, 0, 0, 0)
"""Devices that others have of each ten nodes, of eight; one pod has one."""


def nodes_for(others: int) -> int:
    """How many fake nodes so many pods of others are on. Raises `BadSizes`."""
    if others < TEN * ON_A_NODE or others % (TEN * ON_A_NODE):
        raise BadSizes(
            f"--others {others}: there are {ON_A_NODE} on each node, and nodes come by {TEN}.",
            f"Give a multiple of {TEN * ON_A_NODE}.",
        )
    return others // ON_A_NODE


def pod(number: int) -> Object:
    """The pod of others with this number, counted from 0, on its node already."""
    place, which = divmod(number, ON_A_NODE)
    device = {DEVICES: "1"} if which < TAKEN[place % TEN] else {}
    resources = {"requests": SMALL | device, "limits": device}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"other-{number}",
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/managed-by": NAMESPACE},
        },
        "spec": {
            "nodeName": fleet.node_name(place),
            "containers": [{"name": "main", "image": "other:1", "resources": resources}],
            "tolerations": [{"operator": "Exists"}],
        },
    }


def is_full(node: str) -> bool:
    """Whether others left no room there for a pod that wants all devices."""
    return int(node.removeprefix(fleet.FAKES)) % TEN < FULL
