"""Octets of a rank's hour, sampled: a real ring, the daemon's rules, real blocks, made-up times.

Called by `benchmark`. Virtual time; the spans of a step are those of a pipeline of four
micro-batches.
"""

from collections.abc import Iterator
from pathlib import Path

from holdfast.daemon.tracing.rank import RankSpans
from holdfast.protocol.outputs import Output
from holdfast.protocol.spans import KINDS
from holdfast.telemetry.trace.ring import Raw, SpanWriter
from holdfast.traces.block import Block, encode
from holdfast.traces.model import Span

LOOK_NS = 1_000_000_000
FLUSH_LOOKS = 30
SPANS = ("data", "forward", "backward", "p2p", "collective") * 4 + ("optimizer", "collective")
BEGIN_NS = 20_000_000_000
"""The window at the beginning is over by then."""


def octets(folder: Path, step_s: float, hours: float) -> tuple[int, int, int]:
    """Octets and spans that were kept, of so many that were written, of one rank alone on its node:
    the heads of blocks are shared by the ranks of a larger one."""
    path = folder / "job.e1.r0.spans"
    writer = SpanWriter(path, rank=0, epoch=1)
    said = Output(job="job", epoch=1, rank=0, folder="", began={}, attempt=1, traces="unused")
    rank = RankSpans(path, said, 0)
    total = spans = written = 0
    steps, ends_ns = _steps(writer, step_s), int(2e9 * step_s)
    for look in range(1, int(hours * 3600e9 + BEGIN_NS) // LOOK_NS):
        now_ns = look * LOOK_NS
        writer.opens(now_ns, [])
        while ends_ns <= now_ns:
            ends_ns = next(steps)
            written += len(SPANS) + 1
        rank.look(now_ns)
        rank.due(whole=True)
        if look % FLUSH_LOOKS == 0 and (due := rank.due(whole=False)):
            size = len(encode(_block(due)))
            rank.purse.pay(size, len(due))
            total, spans = total + size, spans + len(due)
    rank.close()
    path.unlink()
    return total, spans, written


def _steps(writer: SpanWriter, step_s: float) -> Iterator[int]:
    """Writes a step, and says when the next one ends."""
    step_ns, step = int(step_s * 1e9), 0
    each_ns = step_ns // (len(SPANS) + 1)
    while True:
        step += 1
        began_ns = step * step_ns
        for place, kind in enumerate(SPANS):
            jitter_ns = (step * 7919 + place * 104_729) % 997 * each_ns // 2_000
            fields = began_ns + place * each_ns + jitter_ns, each_ns - jitter_ns, jitter_ns // 2
            group, number = (77 + place, step) if kind == "collective" else (0, 0)
            name = writer.name("all_reduce" if kind == "collective" else kind)
            writer.span(KINDS.index(kind), name, *fields, step, group, number)
        writer.span(0, 0, began_ns, step_ns, step_ns // 10 + jitter_ns, step)
        yield began_ns + 2 * step_ns


def _block(raws: list[Raw]) -> Block:
    spans = [
        Span(
            rank=0,
            attempt=1,
            node="node-1",
            kind=raw.kind,
            name=raw.name,
            group=raw.group,
            step=raw.step,
            start_s=raw.began_ns / 1e9,
            took_s=raw.took_ns / 1e9,
            waited_s=raw.waited_ns / 1e9,
            number=raw.number,
        )
        for raw in raws
    ]
    fields = {"job": "job", "node": "node-1", "submitted_s": 0.0, "error_s": 0.0001}
    return Block(**fields, wall_s=1.8e9, dropped=0, whole=False, spans=spans)  # type: ignore[arg-type]
