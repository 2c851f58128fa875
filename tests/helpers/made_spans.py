"""A made-up job's spans: two nodes of two ranks, of which rank 3 is slow, and stops at its end."""

from collections.abc import Iterable
from pathlib import Path

from holdfast.protocol.paths import RunPaths
from holdfast.traces.block import Block, encode
from holdfast.traces.model import Span
from holdfast.traces.sinks import Place
from holdfast.traces.sinks.files import FileSink

STEPS, STEP_S, SLOW = 20, 0.1, 3
GROUP = 2**63 + 5
WALL_S = 1_790_000_000.0


def spans_of(rank: int, steps: int = STEPS) -> list[Span]:
    """Forward, backward and an all-reduce, for which all wait for rank 3."""
    node = f"node-{1 + rank // 2}"
    found = []
    for step in range(1, steps + 1):
        at_s = 1.0 + STEP_S * (step - 1)
        own_s = 0.06 if rank == SLOW else 0.04
        fields = {"rank": rank, "attempt": 1, "node": node, "step": step}
        found += [
            Span(kind="forward", name="forward", start_s=at_s, took_s=own_s / 2, **fields),
            Span(
                kind="backward", name="backward", start_s=at_s + own_s / 2, took_s=own_s / 2,
                **fields,
            ),
            Span(
                kind="collective", name="all_reduce", group=GROUP, number=step,
                start_s=at_s + own_s, took_s=STEP_S - own_s, waited_s=STEP_S - own_s, **fields,
            ),
            Span(kind="step", start_s=at_s, took_s=STEP_S, waited_s=STEP_S - own_s, **fields),
        ]  # fmt: skip
    last_s = 1.0 + STEP_S * steps
    fields = {"rank": rank, "attempt": 1, "node": node, "step": steps + 1, "ended": False}
    if rank == SLOW:
        stopped = {"name": "stopped", "start_s": last_s + 0.01}
        found += [Span(kind="pause", took_s=grown, **stopped, **fields) for grown in (1.0, 5.0)]
    else:
        held = {"start_s": last_s + 0.04, "group": GROUP, "number": steps + 1, "name": "all_reduce"}
        found += [
            Span(kind="collective", took_s=grown, waited_s=grown, **held, **fields)
            for grown in (1.0, 4.9)
        ]
    return found


def block_of(spans: Iterable[Span], *, job: str = "speech", submitted_s: float = 50.0) -> Block:
    listed = list(spans)
    return Block(
        job=job,
        node=listed[0].node if listed else "node-1",
        submitted_s=submitted_s,
        error_s=0.0002,
        wall_s=WALL_S,
        dropped=3,
        whole=True,
        spans=listed,
    )


def write(root: Path, block: Block, now_s: float = 60.0) -> Path:
    """Into the run's folder; the job's folder of traces."""
    folder = RunPaths(root).traces(block.job)
    FileSink().put(Place(folder, block.job, 1, block.node, now_s), encode(block))
    return folder


def made(root: Path, job: str = "speech") -> Path:
    """The whole job."""
    folder = root
    for node in range(2):
        ranks = (2 * node, 2 * node + 1)
        folder = write(root, block_of((s for rank in ranks for s in spans_of(rank)), job=job))
    return folder
