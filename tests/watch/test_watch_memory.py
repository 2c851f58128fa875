"""What the detectors keep of a node of 8 ranks that trains: a driver has thousands of them."""

import tracemalloc
from collections.abc import Iterator
from typing import Any

from holdfast.driver.watch import Expectation, Watch
from holdfast.protocol.messages import GroupProgress, Heartbeat, RankProgress, Recent, Seat
from holdfast.protocol.topology import Topology
from holdfast.protocol.wire import Decoder, encode

NODES, RANKS_EACH, BEATS, PERIOD_S = 40, 8, 40, 0.5
KEPT_BYTES = 19_500
"""19,000 with Python 3.11, with what is kept once a job; 3,500 are for the clocks of its steps."""
DECODER: Decoder[Any] = Decoder(Heartbeat)


def groups(rank: int, step: int) -> Iterator[GroupProgress]:
    first = rank - rank % RANKS_EACH
    marks = tuple((s, 4 * s) for s in range(max(1, step - 3), step))
    for members, ranks in (
        (1 + first, tuple(range(first, first + RANKS_EACH))),
        (1_000_000 + rank % RANKS_EACH, ()),
    ):
        yield GroupProgress(
            members=members,
            kind="all_reduce",
            enqueued=4 * step,
            done=4 * step,
            step=step,
            ranks=ranks,
            marks=marks,
        )


def rank_seen(rank: int, step: int) -> RankProgress:
    return RankProgress(
        rank=rank,
        epoch=1,
        job="job",
        pid=10_000 + rank,
        process="S",
        step=step,
        phase="train",
        loss=3.0 - step / 1000,
        hooks=True,
        cpu_s=step + 0.5,
        frame="train.py:40 train",
        groups=tuple(groups(rank, step)),
        wall_s={"train": step + 0.25},
        stepped_s=step + 0.5,
        ran_s=step * 0.4 + 0.125,
        waited_s=step * 0.3 + 0.125,
        delayed_s=step * 0.1 + 0.125,
        recent=(Recent(members=1, collectives=()),),
    )


def beat(node: int, step: int) -> Heartbeat:
    ranks = range(node * RANKS_EACH, (node + 1) * RANKS_EACH)
    sent = Heartbeat(
        node=f"node-{node}",
        incarnation="x",
        sequence=step,
        uptime_s=step * PERIOD_S,
        ranks=tuple(rank_seen(rank, step) for rank in ranks),
    )
    return DECODER.decode(encode(sent))  # type: ignore[no-any-return]


def trained() -> Watch:
    watch, names = Watch(), [f"node-{node}" for node in range(NODES)]
    seats = tuple(
        Seat(rank=rank, local_rank=rank % RANKS_EACH, node=names[rank // RANKS_EACH], address="::")
        for rank in range(NODES * RANKS_EACH)
    )
    for name in names:
        watch.connected(name, "daemon", 0.0)
        watch.fact(name, True, 0.0)
    shape = Topology(tp=RANKS_EACH, dp=NODES)
    watch.expect(Expectation(job="job", epoch=1, seats=seats, topology=shape))
    for step in range(1, BEATS + 1):
        for node in range(NODES):
            assert not watch.heard(beat(node, step), step * PERIOD_S)
        watch.tick(step * PERIOD_S)
    return watch


def test_little_is_kept_of_what_each_rank_tells_again_and_again() -> None:
    trained()  # what is kept but once
    tracemalloc.start()
    try:
        watch = trained()
        kept = tracemalloc.get_traced_memory()[0] / NODES
    finally:
        tracemalloc.stop()
    progress = watch.progress("job")
    assert progress is not None
    assert progress.step == BEATS
    assert kept < KEPT_BYTES
