"""What is aimed at in these cases, and whether it is reached. Pure; called by `benchmark`."""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from holdfast.bench.evidence.rows import CLOCKED, ORACLE, Row

SHARE_OF_ORACLE = 0.95
TIMES_ORACLE = 1.2
INNOCENTS_A_FAULT = 0.05
CRASHES_A_MOVE = 20
FAULTS_OF_A_VERSION = 6


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """One goal, for one system."""

    system: str
    what: str
    met: bool
    missed_by: tuple[str, ...] = ()  # cases, each with its figure


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Those that the cases which were played can tell of, for each system but the oracles."""
    oracle = {row.case: row for row in rows if row.system == ORACLE}
    systems = dict.fromkeys(row.system for row in rows if row.system not in (ORACLE, CLOCKED))
    return [
        goal
        for system in systems
        for goal in _of(system, [row for row in rows if row.system == system], oracle)
    ]


def _of(system: str, rows: Sequence[Row], oracle: dict[str, Row]) -> Iterator[Goal]:
    def goal(what: str, of: Sequence[Row], reached: Callable[[Row], tuple[bool, str]]) -> Goal:
        missed = [(row.case, told) for row in of for met, told in [reached(row)] if not met]
        named = tuple(f"{case} {told}" for case, told in missed)
        return Goal(system=system, what=what, met=not missed, missed_by=named)

    share, known = SHARE_OF_ORACLE, [row for row in rows if row.case in oracle]
    yield goal(
        f"running or rightly failed: {share:.0%} of the oracle's",
        known,
        lambda row: _least(row.right_percent, share * oracle[row.case].right_percent),
    )
    yield goal(
        f"cause named: {share:.0%} of the oracle's",
        known,
        lambda row: _least(row.named_percent, share * oracle[row.case].named_percent),
    )
    yield goal("innocents quarantined: 0", rows, lambda row: _most(row.innocents_quarantined, 0))
    yield goal(
        f"innocents moved: at most {INNOCENTS_A_FAULT:g} a fault",
        rows,
        lambda row: _most(row.innocents_moved_a_fault, INNOCENTS_A_FAULT),
    )
    yield goal(
        f"time lost: at most {TIMES_ORACLE:g} times the oracle's, in the median and in all",
        rows,
        lambda row: _most(
            max(row.times_oracle or 0.0, row.times_oracle_in_all or 0.0), TIMES_ORACLE
        ),
    )
    for case, what, reached in _of_cases():
        if own := [row for row in rows if row.case == case]:
            yield goal(what, own, reached)


def _of_cases() -> Iterator[tuple[str, str, Callable[[Row], tuple[bool, str]]]]:
    yield "evaluation", "long evaluations: 0 failed", lambda row: _most(row.failed_percent, 0.0)
    yield (
        "two-lemons",
        "two lemons of four: running, each life that two other nodes are left for",
        lambda row: _least(row.curable_running_percent or 0.0, 100.0),
    )
    yield (
        "crashing-code",
        f"crashing code that advances: at most 1 move in {CRASHES_A_MOVE} crashes",
        lambda row: _most(row.moves_a_fault, 1 / CRASHES_A_MOVE),
    )
    yield (
        "bad-version",
        f"bad version: found within {FAULTS_OF_A_VERSION} faults, in each life",
        lambda row: (
            row.faults_most <= FAULTS_OF_A_VERSION and row.named_percent >= 100.0,
            f"{row.named_percent:.1f} % named, {row.faults_most} faults",
        ),
    )


def _least(value: float, bound: float) -> tuple[bool, str]:
    return value >= bound, f"{value:.1f} of {bound:.1f}"


def _most(value: float, bound: float) -> tuple[bool, str]:
    return value <= bound, f"{value:.3g}"
