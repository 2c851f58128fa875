"""From lives to the row of one case and one system. Pure; called by `benchmark`."""

from collections.abc import Iterable, Sequence
from statistics import fmean, median
from typing import NamedTuple

import msgspec

from holdfast.bench.figures import quantile
from holdfast.lab.simulator.cases.books import Life

ORACLE = "oracle"
"""Sees what a driver sees: as good as one may be."""
CLOCKED = "clocked"
"""The oracle that knows besides how often each cause strikes: beside it, not to be reached."""
LEAST_S = 1.0
"""An oracle that loses less has no ratio: it lost nothing."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Percent of lives; means a life; seconds are virtual, but for CPU."""

    case: str
    system: str
    lives: int
    right_percent: float  # running, or rightly failed
    failed_percent: float
    curable_running_percent: float | None  # of lives in which there are nodes enough
    named_percent: float
    faults: float
    faults_p90: float
    faults_most: int
    innocents_quarantined: int  # in all lives
    innocents_moved_a_fault: float
    moves: float
    moves_a_fault: float
    lost_median_s: float
    lost_p90_s: float
    times_oracle: float | None  # in the median life that came right for both; None: too few such
    times_oracle_in_all: float | None  # of all such lives together
    times_clocked: float | None  # the same beside the oracle that knows more
    cpu_ms: float  # a life


def row(case: str, system: str, lives: Sequence[Life], cpu_s: float) -> Row:
    """Of one system's lives of a case; its ratios to the oracles come with `compared`."""
    faults = sum(life.faults for life in lives)
    curable = [life.ended == "running" for life in lives if life.curable]
    lost = [life.lost_s for life in lives]
    return Row(
        case=case,
        system=system,
        lives=len(lives),
        right_percent=_percent(life.right for life in lives),
        failed_percent=_percent(life.ended == "failed" for life in lives),
        curable_running_percent=_percent(curable) if curable else None,
        named_percent=_percent(life.named_right for life in lives),
        faults=fmean(life.faults for life in lives),
        faults_p90=quantile([life.faults for life in lives], 0.9) or 0.0,
        faults_most=max(life.faults for life in lives),
        innocents_quarantined=sum(life.innocent_quarantined for life in lives),
        innocents_moved_a_fault=sum(life.innocent_moves for life in lives) / max(1, faults),
        moves=fmean(life.moves for life in lives),
        moves_a_fault=sum(life.moves for life in lives) / max(1, faults),
        lost_median_s=median(lost),
        lost_p90_s=quantile(lost, 0.9) or 0.0,
        times_oracle=None,
        times_oracle_in_all=None,
        times_clocked=None,
        cpu_ms=1e3 * cpu_s / len(lives),
    )


class Compared(NamedTuple):
    """How many times another's the time lost is; None: too few lives can be compared."""

    median: float | None = None
    in_all: float | None = None


def compared(lives: Sequence[Life], oracle: Sequence[Life]) -> Compared:
    """How many times the oracle's the time lost is, in the median life of those that came right for
    both and in all of them. Not where a job cannot do without the guilty: how long to try there
    says the budget that people set, and the oracle has none."""
    theirs = {
        life.seed: life.lost_s
        for life in oracle
        if life.right and life.curable and life.lost_s >= LEAST_S
    }
    both = [life for life in lives if life.right and life.seed in theirs]
    if 2 * len(both) < len(lives) or not both:
        return Compared()
    times = [life.lost_s / theirs[life.seed] for life in both]
    in_all = sum(life.lost_s for life in both) / sum(theirs[life.seed] for life in both)
    return Compared(median(times), in_all)


def _percent(shares: Iterable[bool]) -> float:
    return 100.0 * fmean(shares)
