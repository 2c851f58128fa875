"""Whose link it is that is slow, and how that is told. Used by `slow_links`. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping
from statistics import median

from holdfast.driver.watch.flows import Moved, Pair
from holdfast.driver.watch.model import Expectation, evidence
from holdfast.protocol.faults import Evidence, Finding, Kind, Weight

Culprit = tuple[str, ...]
"""A node; or two, of which nobody can say which it is: from the first to the second."""


def culprits(bad: set[Pair], all_: Mapping[Pair, Moved]) -> Iterator[tuple[Culprit, set[Pair]]]:
    """Who explains all flows that are bad, each with those of its own. A node is named by two that
    have it in common, where no other node has as many."""
    left = set(bad)
    while left:
        counts = Counter(node for pair in left for node in pair)
        (node, most), *others = counts.most_common(2)
        if most > 1 and (not others or others[0][1] < most):
            mine = {pair for pair in left if node in pair}
            yield (node,), mine
        else:
            one = max(left, key=lambda pair: (all_[pair].busy, pair))
            mine = {pair for pair in left if set(pair) == set(one)}
            yield one, mine
        left -= mine


def told(
    culprit: Culprit,
    pairs: set[Pair],
    moved: Mapping[Pair, Moved],
    usual: Mapping[Pair, Moved | None],
    slow: set[Pair],
    expected: Expectation,
) -> Finding:
    """`slow`: those of `pairs` that are; the others lose packets."""
    worst = max(slow or pairs, key=lambda pair: moved[pair].busy if slow else moved[pair].lost)
    others = [each.rate for pair, each in moved.items() if not set(culprit) & set(pair)]
    how = _slow(moved[worst], usual[worst], others) if slow else _lost(worst, moved[worst])
    return Finding(
        kind=Kind.LINK_SLOW,
        weight=Weight.REPORT,
        job=expected.job,
        epoch=expected.epoch,
        node=culprit[0] if len(culprit) == 1 else None,
        summary=f"{_link(culprit)} {how}",
        evidence=tuple(_evidence(pair, moved[pair], usual[pair]) for pair in sorted(pairs)),
    )


def _link(culprit: Culprit) -> str:
    if len(culprit) == 1:
        return f"the link of {culprit[0]}"
    return f"the link between {culprit[0]} and {culprit[1]}"


def _slow(now: Moved, before: Moved | None, others: list[float]) -> str:
    told = f"holds the job up: {_mb(now.rate)} while it sends"
    if before is not None:
        steps = f"a step takes {_s(now.step_s)}, and before {_s(before.step_s)}"
        return f"{told}, and before {_mb(before.rate)}; {steps}"
    return f"{told}, and others {_mb(median(others))}" if others else told


def _lost(pair: Pair, now: Moved) -> str:
    return f"loses packets: {now.lost:.2%} of what {pair[0]} sends to {pair[1]} is sent again"


def _evidence(pair: Pair, now: Moved, before: Moved | None) -> Evidence:
    sender, to = pair
    than = f" (usual {_mb(before.rate)}, {before.busy:.0%})" if before is not None else ""
    text = (
        f"{sender} sends {_mb(now.sent_bytes / now.window_s)} to {to}, "
        f"{_mb(now.rate)} while anything is on its way, {now.busy:.0%} of the time{than}; "
        f"{now.lost:.2%} is sent again; a round trip takes {_s(now.rtt_s)}"
    )
    return evidence(f"daemon of {sender}", text, rate=round(now.rate), lost=round(now.lost, 5))


def _mb(rate: float) -> str:
    return f"{rate / 1e6:.3g} MB/s"


def _s(time_s: float) -> str:
    return f"{time_s:.3g} s" if time_s >= 1 else f"{1e3 * time_s:.3g} ms"


def well(expected: Expectation) -> Finding:
    return Finding(
        kind=Kind.LINK_WELL,
        weight=Weight.REPORT,
        job=expected.job,
        epoch=expected.epoch,
        summary="no link between its nodes holds the job up, or loses packets, any more",
    )
