"""The demo's training job, as a user would write it."""

from pathlib import Path
from typing import Any

NODES, STANDBYS, RANKS_PER_NODE = 4, 1, 2
TOPOLOGY = {"tp": 2, "pp": 2, "dp": 2}


def training_job(name: str, *, steps: int, standbys: int, folder: Path) -> dict[str, Any]:
    """A TrainingJob: the built-in GPT on this Python's own standard library, 8 ranks."""
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "nodes": NODES,
            "ranksPerNode": RANKS_PER_NODE,
            "standbys": standbys,
            "command": ["python", "-m", "holdfast.workload.main", "--steps", str(steps)],
            "workdir": str(folder),
            "topology": TOPOLOGY,
            "checkpoint": {"memoryIntervalSteps": 1, "storeIntervalSteps": 5},
        },
    }
