"""The losses that a job's ranks left behind, bit for bit, over all its attempts.

Called by the demo, the chaos scores and the benchmarks after a run. Must not ask the driver: it
reads `metrics.jsonl` of every rank and attempt, as `workload/metrics.py` writes it.
"""

import re
from pathlib import Path

import msgspec

from holdfast.protocol.paths import RunPaths


class Line(msgspec.Struct, frozen=True):
    """The fields of a metrics line that are compared; others are passed over."""

    step: int
    loss_hex: str
    loss: float | None  # None: it was no number


class Losses(msgspec.Struct, frozen=True, kw_only=True):
    """Loss by step, as `float.hex()`, and the steps for which two writers disagreed."""

    by_step: dict[int, str]
    disputed: tuple[int, ...] = ()

    @property
    def last_step(self) -> int:
        return max(self.by_step, default=0)


def read(run: RunPaths, job: str) -> Losses:
    """All losses of `job`. A step that was trained twice, or by two replicas, has to agree. What
    was no number is passed over: a job that went back for it has another one in its place."""
    by_step: dict[int, str] = {}
    disputed: set[int] = set()
    for file in sorted(run.job(job).glob("attempt_*/rank_*/metrics.jsonl"), key=_attempt_and_rank):
        for line in _lines(file):
            if by_step.setdefault(line.step, line.loss_hex) != line.loss_hex:
                disputed.add(line.step)
    return Losses(by_step=dict(sorted(by_step.items())), disputed=tuple(sorted(disputed)))


def until(step: int, losses: Losses) -> Losses:
    """Those of the same job, had it ended there."""
    return msgspec.structs.replace(
        losses, by_step={each: loss for each, loss in losses.by_step.items() if each <= step}
    )


def equal_bitwise(one: Losses, other: Losses) -> bool:
    """Whether both trained the same steps to the same bits, and neither contradicts itself."""
    return bool(one.by_step) and one == other and not one.disputed


def first_difference(one: Losses, other: Losses) -> int | None:
    """The first step at which they differ, or that only one of them has; None if there is none."""
    steps = sorted(one.by_step.keys() | other.by_step.keys())
    return next((step for step in steps if one.by_step.get(step) != other.by_step.get(step)), None)


def _lines(file: Path) -> list[Line]:
    """Whole lines only: a rank that was killed may have left half of one at the end."""
    whole, _, _ = file.read_bytes().rpartition(b"\n")
    lines = (msgspec.json.decode(line, type=Line) for line in whole.splitlines() if line)
    return [line for line in lines if line.loss is not None]


def _attempt_and_rank(file: Path) -> tuple[int, int]:
    attempt, rank = re.findall(r"(?:attempt|rank)_(\d+)", str(file))[-2:]
    return int(attempt), int(rank)
