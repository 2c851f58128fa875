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
    spans = [_span(steps) for _, steps in sorted(writers.items())]
    completed = lost = 0
    for place, (first, last) in enumerate(spans):
        # Who goes on at a step shows that the attempt before came as far, whatever it wrote down.
        follower = spans[place + 1][0] if place + 1 < len(spans) else 0
        reached = max(last, follower - 1)
        lost += max(0, min(completed, reached) - (first - 1))
        completed = max(completed, reached)
    return lost


def _span(steps: list[list[int]]) -> tuple[int, int]:
    """The first step of an attempt, and the last one that all its writers completed."""
    return min(own[0] for own in steps), min(own[-1] for own in steps)


def _steps(file: Path) -> list[int]:
    """Whole lines only: a rank that was killed may have left half of one at the end."""
    whole, _, _ = file.read_bytes().rpartition(b"\n")
    return [msgspec.json.decode(line, type=_Line).step for line in whole.splitlines() if line]
