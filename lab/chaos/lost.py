"""How many steps a job trained twice, counted from what its ranks left behind.

Called by `chaos.play`. Must not ask the driver: what it says was lost is judged by this.
"""

import re
from collections import defaultdict
from pathlib import Path

import msgspec

from holdfast.protocol.paths import RunPaths


class _Line(msgspec.Struct, frozen=True):
    step: int


def steps_lost(run: RunPaths, job: str) -> int:
    """Steps that all writers of an attempt had completed and a later attempt did again, summed."""
    writers: dict[int, list[list[int]]] = defaultdict(list)
    for file in run.job(job).glob("attempt_*/rank_*/metrics.jsonl"):
        attempt = re.search(r"attempt_(\d+)", str(file))
        steps = _steps(file)
        if attempt and steps:
            writers[int(attempt[1])].append(steps)
    completed = lost = 0
    for _, attempt_steps in sorted(writers.items()):
        first = min(steps[0] for steps in attempt_steps)
        if completed:
            lost += max(0, completed - (first - 1))
        completed = max(completed, min(steps[-1] for steps in attempt_steps))
    return lost


def _steps(file: Path) -> list[int]:
    """Whole lines only: a rank that was killed may have left half of one at the end."""
    whole, _, _ = file.read_bytes().rpartition(b"\n")
    return [msgspec.json.decode(line, type=_Line).step for line in whole.splitlines() if line]
