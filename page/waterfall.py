"""A recovery as bars, one below the other: which stage took how long, after which. Pure."""

from collections.abc import Mapping
from typing import NamedTuple


class Bar(NamedTuple):
    """`start` and `share` are parts of the whole, 0 to 1."""

    stage: str
    start: float
    share: float
    took_s: float


def waterfall(stages_s: Mapping[str, float]) -> list[Bar]:
    """In order; each begins where the one before ended."""
    total, begun, bars = sum(stages_s.values()), 0.0, []
    for stage, took in stages_s.items():
        start, share = (begun / total, took / total) if total else (0.0, 1.0)
        bars.append(Bar(stage, start, share, took))
        begun += took
    return bars


MEANS = {
    "detect": "until it was noticed",
    "decide": "until it was decided what to do",
    "stop": "until the ranks had ended",
    "diagnose": "tests of nodes",
    "replace": "until there were enough nodes",
    "rendezvous": "until the ranks could meet",
    "fork": "until the ranks ran",
    "group": "until they had their process group",
    "restore": "until their state was loaded",
    "step": "until the first step",
    "redo": "steps that were done again",
}
"""What each stage of `stages_s` is; one of a newer driver has its name alone."""
