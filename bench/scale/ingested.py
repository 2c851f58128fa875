"""Heartbeats of 8 ranks each, from the wire into all detectors: what one costs, by cluster size.

A script: `ingested.py NODES` prints a line of JSON for each layout. All nodes train one job, which
steps; nothing is wrong. It needs of Holdfast what earlier commits have as well.
"""

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from holdfast.driver.watch import Expectation, Watch
from holdfast.protocol.messages import GroupProgress, Heartbeat, RankProgress, Seat
from holdfast.protocol.topology import Topology
from holdfast.protocol.wire import Decoder, encode

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
            hooks=True,
            cpu_s=beat * PERIOD_S,
            frame="train.py:40 train",
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
    """CPU seconds of one heartbeat and of one tick, over the rounds after the warm ones."""
    watch, decoder = _watch(layout, nodes), Decoder[Any](Heartbeat)
    heard_s = tick_s = 0.0
    for beat in range(1, WARM + ROUNDS + 1):
        frames = [_beat(layout, nodes, node, beat) for node in range(nodes)]
        began_s = time.process_time()
        for frame in frames:
            watch.heard(decoder.decode(frame), beat * PERIOD_S)
        between_s = time.process_time()
        watch.tick(beat * PERIOD_S)
        if beat > WARM:
            heard_s += between_s - began_s
            tick_s += time.process_time() - between_s
    return {
        "stage": f"heartbeat, {layout}",
        "nodes": nodes,
        "heartbeat_s": heard_s / ROUNDS / nodes,
        "tick_s": tick_s / ROUNDS,
    }


def main() -> None:
    for layout in ("tp 8, dp N", "one group"):
        print(json.dumps(measure(layout, int(sys.argv[1]))), flush=True)


if __name__ == "__main__":
    main()
