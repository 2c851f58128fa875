"""The TrainingJobs of benchmarks that run one on two nodes of this machine. Used by `endurance`,
`leaks` and `restart`.
"""

import sys
from pathlib import Path
from typing import Any

NODES, RANKS = 2, 4


def job_of(name: str, folder: Path, *script: str, **more: Any) -> dict[str, Any]:
    """One that runs this script, and its arguments, in `folder`. `more`: fields of its spec."""
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "nodes": NODES,
            "ranksPerNode": RANKS // NODES,
            "command": [sys.executable, *script],
            "workdir": str(folder),
            **more,
        },
    }
