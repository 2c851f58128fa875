"""The demo's training job, as a user would write it."""

from pathlib import Path
from typing import Any

NODES, STANDBYS, RANKS_PER_NODE = 4, 1, 2
TOPOLOGY = {"tp": 2, "pp": 2, "dp": 2}


def training_job(
    name: str, *, steps: int, standbys: int, folder: Path, script: str
) -> dict[str, Any]:
    """A TrainingJob: the built-in GPT on this Python's own standard library, 8 ranks.

    `script`: the module that ranks run, for the faults that are a bug of the user's.
    """
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "nodes": NODES,
            "ranksPerNode": RANKS_PER_NODE,
            "standbys": standbys,
            "command": ["python", "-m", script, "--steps", str(steps)],
            "workdir": str(folder),
            "env": {"CHAOS_BUGS": str(folder / "bugs" / name)},
            "topology": TOPOLOGY,
            "checkpoint": {"memoryIntervalSteps": 1, "storeIntervalSteps": 5},
        },
    }
