"""What a burst shows, in plain words: each rail's mean and peak, idle time, gaps, rhythm. Pure.

Used by the driver's answers. Bins of one millisecond; where a look was missed, what came meanwhile
is spread evenly over it, so a peak there is lower than it was.
"""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from holdfast.protocol.counts import rate
from holdfast.traces.bursts.record import Burst, Rail

IDLE_SHARE = 0.01
"""Of a rail's peak: a millisecond with less is idle (acknowledgements, heartbeats)."""
UNEQUAL = 1.5
"""Rails whose means differ by more than this do not share the load alike: they are there to."""
WORTH_BYTES_MS = 1_000.0
"""A megabyte a second: rails with less at their peak are said to be quiet."""
FOLD_MS = 5
"""Bins are joined by so many for the rhythm, which is that of steps."""
SHORTEST_MS, LONGEST_MS = 20, 3_000
RHYTHM = 0.3
"""Correlation with itself one period later, from which on a rhythm is told: 1 / sqrt(2,000 bins)
is .02, so chance does not get there."""


class RailSaid(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one rail, both directions together, in bytes a millisecond, and of time in ms."""

    name: str
    mean: float
    peak: float
    idle: float  # share of the milliseconds
    gap_ms: int  # longest idle time, where there was traffic at all
    gap_at_ms: int
    errors: int
    drops: int
    period_ms: int | None  # of its rhythm


def bins(burst: Burst, rail: Rail) -> list[float]:
    """Bytes in each millisecond, both directions."""
    length = -(-burst.at_us[-1] // 1000) if burst.at_us else 0
    filled = [0.0] * length
    for (began, ended), received, sent in zip(
        pairwise(burst.at_us), rail.received, rail.sent, strict=True
    ):
        for at in range(began // 1000, min(length, -(-ended // 1000))):
            within = min(ended, (at + 1) * 1000) - max(began, at * 1000)
            filled[at] += (received + sent) * within / max(1, ended - began)
    return filled


def rail_said(burst: Burst, rail: Rail) -> RailSaid:
    """The figures of one rail."""
    filled = bins(burst, rail)
    peak = max(filled, default=0.0)
    moves = [each > IDLE_SHARE * peak for each in filled]
    gap_ms, gap_at_ms = _gap(moves)
    return RailSaid(
        name=rail.name,
        mean=sum(filled) / len(filled) if filled else 0.0,
        peak=peak,
        idle=1 - sum(moves) / len(moves) if moves else 1.0,
        gap_ms=gap_ms,
        gap_at_ms=gap_at_ms,
        errors=sum(rail.errors),
        drops=sum(rail.drops),
        period_ms=period_ms(filled) if peak >= WORTH_BYTES_MS else None,
    )


def period_ms(filled: Sequence[float]) -> int | None:
    """After how many ms the traffic is like itself again; None where it has no rhythm."""
    folded = [sum(filled[at : at + FOLD_MS]) for at in range(0, len(filled), FOLD_MS)]
    mean = sum(folded) / len(folded) if folded else 0.0
    off = [each - mean for each in folded]
    power = sum(each * each for each in off)
    longest = min(LONGEST_MS // FOLD_MS, len(off) // 3)
    if not power or longest <= SHORTEST_MS // FOLD_MS:
        return None
    alike = [
        sum(a * b for a, b in zip(off, off[lag:], strict=False)) / power
        for lag in range(1, longest + 1)
    ]
    humps = [
        at
        for at in range(SHORTEST_MS // FOLD_MS, longest - 1)
        if alike[at] >= RHYTHM and alike[at - 1] < alike[at] >= alike[at + 1]
    ]
    best = max((alike[at] for at in humps), default=0.0)
    first = next((at for at in humps if alike[at] >= 0.8 * best), None)
    return None if first is None else (first + 1) * FOLD_MS


def sentence(burst: Burst, rails: Sequence[RailSaid]) -> str:
    """All rails in words; what was not done as it should have been comes last, unless there was
    nothing to do."""
    if not rails:
        return "There is no rail to count."
    told = " ".join(_of(each) for each in rails)
    return told + _compared(rails) + _degraded(burst)


def _of(rail: RailSaid) -> str:
    if rail.peak < WORTH_BYTES_MS:
        said = f"{rail.name} is quiet: never more than {rate(1000 * rail.peak)}"
    else:
        rhythm = f", again every {rail.period_ms} ms" if rail.period_ms else ", without a rhythm"
        said = (
            f"{rail.name}: {rate(1000 * rail.mean)} on average, "
            f"at most {rate(1000 * rail.peak)}{rhythm}; idle for {rail.idle:.0%} of the time, "
            f"at longest {rail.gap_ms:,} ms from {rail.gap_at_ms / 1000:.2f} s on"
        )
    lost = [f"{n:,} {what}" for n, what in ((rail.errors, "errors"), (rail.drops, "drops")) if n]
    return f"{said}{', ' if lost else ''}{' and '.join(lost)}."


def _compared(rails: Sequence[RailSaid]) -> str:
    """Those that move something, ports with ports and NICs with NICs: others are there for other
    things, and that one is quiet was said."""
    moving = [each for each in rails if each.peak >= WORTH_BYTES_MS]
    ports = [each for each in moving if "/" in each.name]
    nics = [each for each in moving if each not in ports]
    return _alike("RDMA ports", ports) + _alike("NICs", nics)


def _alike(what: str, rails: Sequence[RailSaid]) -> str:
    if len(rails) < 2:
        return ""
    most, least = max(rails, key=lambda r: r.mean), min(rails, key=lambda r: r.mean)
    if most.mean <= UNEQUAL * least.mean:
        return f" {what} are used alike."
    much = f"{most.mean / least.mean:.1f} times as much as"
    return f" {what} are not used alike: {most.name} moves {much} {least.name}."


def _degraded(burst: Burst) -> str:
    return f" {burst.degraded}" if burst.degraded else ""


def _gap(moves: Sequence[bool]) -> tuple[int, int]:
    """The longest run without traffic, and where it begins."""
    best = at_best = run = 0
    for at, moved in enumerate(moves):
        run = 0 if moved else run + 1
        if run > best:
            best, at_best = run, at - run + 1
    return best, at_best
