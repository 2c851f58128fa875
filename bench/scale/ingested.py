"""Heartbeats of 8 ranks each, from the wire into all detectors: what one costs, by cluster size.

A script: `ingested.py NODES LAYOUT` prints a line of JSON; the layout is `tp 8, dp N` or `one
group`. All nodes train one job, which steps; nothing is wrong. It needs of Holdfast what earlier
commits have as well. A process for each layout: what one holds in memory is not the other's.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.driver.watch import Expectation, Watch
from holdfast.protocol.messages import GroupProgress, Heartbeat, RankProgress, Seat
from holdfast.protocol.topology import Topology
from holdfast.protocol.wire import Decoder, encode

try:
    from holdfast.kit.garbage import kept
except ImportError:  # an earlier commit has it where it was used
    from holdfast.driver.main import _kept as kept  # type: ignore[attr-defined, no-redef]

RANKS_EACH = 8
PERIOD_S, STEP_S = 0.5, 1.0
WARM, ROUNDS = 4, 6
COLLECTIVES_A_STEP = 4


def _groups(layout: str, nodes: int, rank: int) -> Iterator[tuple[int, int]]:
    """The groups of a rank: (hash, size)."""
    if layout == "tp 8, dp N":
        yield 1 + rank // RANKS_EACH, RANKS_EACH
        yield 1_000_000 + rank % RANKS_EACH, nodes
    else:
        yield 7, nodes * RANKS_EACH


def _members(layout: str, nodes: int, rank: int) -> tuple[int, ...]:
    if layout == "tp 8, dp N":
        return tuple(range(rank - rank % RANKS_EACH, rank - rank % RANKS_EACH + RANKS_EACH))
    return ()


def _beat(layout: str, nodes: int, node: int, beat: int) -> bytes:
    step = int(beat * PERIOD_S / STEP_S)
    done = step * COLLECTIVES_A_STEP
    ranks = tuple(
        RankProgress(
            rank=rank,
            epoch=1,
            job="job",
            pid=rank + 1,
            process="S",
            step=step,
            loss=3.0,
            hooks=True,
            cpu_s=beat * PERIOD_S,
            frame="train.py:40 train",
            **_clocks(step),
            groups=tuple(
                GroupProgress(
                    members=members,
                    kind="all_reduce",
                    enqueued=done,
                    done=done,
                    step=step,
                    ranks=_members(layout, nodes, rank) if size == RANKS_EACH else (),
                    marks=tuple((s, s * COLLECTIVES_A_STEP) for s in range(max(1, step - 3), step)),
                )
                for members, size in _groups(layout, nodes, rank)
            ),
        )
        for rank in range(node * RANKS_EACH, (node + 1) * RANKS_EACH)
    )
    return encode(
        Heartbeat(
            node=f"node-{node}", incarnation="x", sequence=beat, uptime_s=beat * 0.5, ranks=ranks
        )
    )


def _clocks(step: int) -> dict[str, Any]:
    """Where the time of a rank's steps goes; not told by ranks of an earlier commit."""
    told = {"stepped_s": step * 1.0, "ran_s": step * 0.7, "waited_s": step * 0.2}
    return {name: value for name, value in told.items() if name in RankProgress.__struct_fields__}


def _watch(layout: str, nodes: int) -> Watch:
    watch = Watch()
    seats = tuple(
        Seat(
            rank=rank,
            local_rank=rank % RANKS_EACH,
            node=f"node-{rank // RANKS_EACH}",
            address="10.0.0.1",
        )
        for rank in range(nodes * RANKS_EACH)
    )
    shape = Topology(tp=RANKS_EACH, dp=nodes) if layout == "tp 8, dp N" else Topology()
    for node in range(nodes):
        watch.connected(f"node-{node}", "daemon", 0.0)
        watch.fact(f"node-{node}", True, 0.0)
    watch.expect(Expectation(job="job", epoch=1, seats=seats, topology=shape))
    return watch


def measure(layout: str, nodes: int) -> dict[str, Any]:
    """CPU seconds of one heartbeat and of one tick, over the rounds after the warm ones; and what
    all that is known then takes in memory."""
    decoder, before_bytes = Decoder[Any](Heartbeat), _resident_bytes()
    with kept():
        watch = _watch(layout, nodes)
        for beat in range(1, WARM + 1):
            _round(watch, decoder, layout, nodes, beat)
    held_bytes = _resident_bytes() - before_bytes
    beats = range(WARM + 1, WARM + ROUNDS + 1)
    rounds = [_round(watch, decoder, layout, nodes, beat) for beat in beats]
    return {
        "stage": f"heartbeat, {layout}",
        "nodes": nodes,
        "heartbeat_s": sum(heard_s for heard_s, _ in rounds) / ROUNDS / nodes,
        "tick_s": sum(tick_s for _, tick_s in rounds) / ROUNDS,
        "held_bytes": held_bytes,
    }


def _round(
    watch: Watch, decoder: Decoder[Any], layout: str, nodes: int, beat: int
) -> tuple[float, float]:
    """One heartbeat of each node, and a tick: the seconds of all of them, and of it."""
    heard_s = 0.0
    for first in range(0, nodes, 100):
        some = range(first, min(first + 100, nodes))
        frames = [_beat(layout, nodes, node, beat) for node in some]
        began_s = time.process_time()
        for frame in frames:
            watch.heard(decoder.decode(frame), beat * PERIOD_S)
        heard_s += time.process_time() - began_s
    began_s = time.process_time()
    watch.tick(beat * PERIOD_S)
    return heard_s, time.process_time() - began_s


def _resident_bytes() -> int:
    """What this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    print(json.dumps(measure(sys.argv[2], int(sys.argv[1]))), flush=True)


if __name__ == "__main__":
    main()
