"""`python -m holdfast.daemon.bursts.sampler NODE SECONDS INTERFACE SYS`: a burst to stdout.

Started by `taker`, for a daemon's own threads would hold it up (and it them). Its schedule is
absolute: a look that comes late takes none from the next, and what was missed is counted. A process
whose daemon is gone ends.
"""

import os
import sys
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path

from holdfast.daemon.bursts.counters import Counts, Links, Ports
from holdfast.traces.bursts.record import MOST_RAILS, MOST_SAMPLES, Burst, Rail, encode

PERIOD_NS = 1_000_000
BUSY = 0.05
"""Share of milliseconds that were missed from which on the machine is said to be too busy."""
_EVERY = 100
"""Looks between two at whether the daemon is still there."""
NOTHING: Counts = (0, 0, 0, 0)


def sample(node: str, seconds: float, interface: str, sys_root: Path) -> Burst:
    """Look each millisecond. Raises `OSError` where the kernel tells nothing."""
    with closing(Links(interface)) as links, closing(Ports(sys_root)) as ports:
        return _sampled(node, seconds, links, ports)


def _sampled(node: str, seconds: float, links: Links, ports: Ports) -> Burst:
    names = [*ports.names, *links.names]
    rails, left_out = names[:MOST_RAILS], names[MOST_RAILS:]
    whole, looks = round(seconds * 1e9) // PERIOD_NS, list[tuple[int, dict[str, Counts]]]()
    parent, began_cpu_s = os.getppid(), time.process_time()
    began_ns, tick, missed = time.monotonic_ns(), 0, 0
    while tick <= whole and len(looks) < MOST_SAMPLES:
        looks.append((time.monotonic_ns(), links.look() | ports.look()))
        if len(looks) % _EVERY == 0 and os.getppid() != parent:
            break
        late = (time.monotonic_ns() - began_ns) // PERIOD_NS
        due = min(whole + 1, max(tick + 1, late))  # what comes after its end is not missed
        missed += due - tick - 1
        tick = due
        pause_ns = began_ns + tick * PERIOD_NS - time.monotonic_ns()
        if pause_ns > 0:
            time.sleep(pause_ns / 1e9)  # noqa: TID251 its schedule is the fact
    return Burst(
        node=node,
        seconds=seconds,
        missed=missed,
        cpu_s=time.process_time() - began_cpu_s,
        degraded=_degraded(missed, whole, left_out),
        at_us=[(at - looks[0][0]) // 1000 for at, _ in looks],
        rails=[_rail(name, [counts.get(name, NOTHING) for _, counts in looks]) for name in rails],
    )


def _rail(name: str, counts: list[Counts]) -> Rail:
    grown = [
        [max(0, after - before) for before, after in pairwise(column)]
        for column in zip(*counts, strict=True)
    ]
    return Rail(name=name, received=grown[0], sent=grown[1], errors=grown[2], drops=grown[3])


def _degraded(missed: int, whole: int, left_out: list[str]) -> str:
    said = []
    if missed > BUSY * whole:
        said.append(
            f"The node was too busy to look each millisecond: {missed:,} of {whole:,} were missed, "
            "and what came in them is spread evenly."
        )
    if left_out:
        said.append(f"{len(left_out)} more rails were left out: {', '.join(left_out)}.")
    return " ".join(said)


def main() -> int:
    node, seconds, interface, sys_root = sys.argv[1:5]
    try:
        burst = sample(node, float(seconds), interface, Path(sys_root))
    except OSError as error:
        sys.stderr.write(f"its counters cannot be read: {error}")
        return 1
    sys.stdout.buffer.write(encode(burst))
    return 0


if __name__ == "__main__":
    sys.exit(main())
