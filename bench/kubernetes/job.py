"""The TrainingJobs of the benchmark: the gang on fake nodes, and one that really runs beside it.

Called by the turns. Pure.
"""

from typing import Any

from holdfast.bench.kubernetes import fleet
from holdfast.driver.adapters.kubernetes import names

Object = dict[str, Any]

GANG, BESIDE, PAIR = "gang", "beside", "pair"
IMAGE = "holdfast-executor:1"
"""Known to emulated nodes; fake ones know all."""
WHOLE_NODE = {"image": IMAGE, "resources": {"limits": {"nvidia.com/gpu": 8, "memory": "512Gi"}}}
TRAIN = "import time\nfor step in range(10**6): print(step, flush=True); time.sleep(1)"


def gang(nodes: int) -> Object:
    """One rank a node, on nodes with eight GPUs."""
    return _job(GANG, nodes, ["train"], WHOLE_NODE)


def pair() -> Object:
    """Two of these nodes."""
    return _job(PAIR, 2, ["train"], WHOLE_NODE)


def beside(nodes: int) -> Object:
    """Prints its steps, for as long as it may."""
    return _job(BESIDE, nodes, ["python", "-u", "-c", TRAIN], {"image": IMAGE})


def _job(name: str, nodes: int, command: list[str], pod: Object) -> Object:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name, "namespace": fleet.NAMESPACE},
        "spec": {"nodes": nodes, "ranksPerNode": 1, "command": command, "pod": pod},
    }
