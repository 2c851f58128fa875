"""From what the nodes measured to which part of which node is bad. Pure; called by the driver.

Must not convict on one result, which may be a lie, nor a majority of those tested: then it is more
likely the test that is wrong. It says what is bad, never what becomes of a node.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from holdfast.diagnostics.plan import ALLREDUCE, COMPUTE
from holdfast.diagnostics.thresholds import Thresholds
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult


class Part(StrEnum):
    """What of a node is bad."""

    COMPUTE = "compute"  # wrong or too slow in both rounds
    LINK = "link"  # computes well, fails with good partners
    NODE = "node"  # nothing was heard of it, and good partners waited in vain


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """`bad`: node -> part. `undecided`: could be neither cleared nor convicted. Sorted by name.
    `apart`: pairs that failed together, and neither of which is bad.
    """

    bad: dict[str, str]
    undecided: tuple[str, ...]
    evidence: tuple[str, ...]
    apart: tuple[tuple[str, str], ...] = ()


class _Match(msgspec.Struct, frozen=True):
    """One all-reduce between two nodes. `passed` is None where it says nothing."""

    round: int
    members: tuple[str, str]
    passed: bool | None
    text: str
    slow: bool = False  # it came to an end, below what it should reach


def judge(
    orders: Mapping[str, tuple[DiagnosticOrder, ...]],
    results: Iterable[DiagnosticResult],
    thresholds: Thresholds,
) -> Verdict:
    """Whom the results convict. A result that is missing at its time counts as a failure.

    A node is cleared by one passed all-reduce, and convicted by failing every all-reduce it was in,
    one of them with a cleared partner, or by failing both compute tests. What its two ends tell
    differently says nothing.
    """
    if not orders:
        return Verdict(bad={}, undecided=(), evidence=())
    known = {_key(result): result for result in results}
    matches = _matches(orders, known, thresholds)
    computes = {node: _compute(node, orders[node], known, thresholds) for node in orders}
    cleared = {node for match in matches if match.passed for node in match.members}
    bad: dict[str, str] = {}
    undecided = set()
    for node in orders:
        if computes[node] is False:
            bad[node] = Part.COMPUTE
        elif _fails_with_the_good(node, matches, cleared, orders):
            bad[node] = Part.LINK if _heard(node, known) else Part.NODE
        elif computes[node] is None or (node not in cleared and len(orders) > 1):
            undecided.add(node)
    bad, undecided, doubt = _no_majority(bad, undecided, len(orders))
    lines = [*_compute_lines(orders, known, thresholds), *_match_lines(matches, bad), *doubt]
    return Verdict(
        bad=dict(sorted(bad.items())),
        undecided=tuple(sorted(undecided)),
        evidence=tuple(lines),
        apart=_apart(matches, {node for node, good in computes.items() if good}, cleared),
    )


def judge_alone(
    node: str,
    orders: tuple[DiagnosticOrder, ...],
    results: Iterable[DiagnosticResult],
    *,
    compute_gflops: float = 0.0,
) -> Verdict:
    """Of a node that was tested with nobody beside it: no fellow says what a good one reaches.

    It is cleared by one compute test that it passed. It is convicted where each came out wrong; of
    being slow, or out of time, only where its node class says what it must reach
    (`compute_gflops`, 0: it does not), for a busy machine looks the same.
    """
    known = {_key(result): result for result in results}
    least = Thresholds(compute_gflops=compute_gflops)
    found = [known.get((node, test.test, test.round)) for test in orders]
    bad: dict[str, str] = {}
    if len(found) > 1 and all(each and _convicts(each, compute_gflops) for each in found):
        bad[node] = Part.COMPUTE
    cleared = _compute(node, orders, known, least) is True
    return Verdict(
        bad=bad,
        undecided=() if bad or cleared else (node,),
        evidence=tuple(_compute_lines({node: orders}, known, least)),
    )


def _convicts(result: DiagnosticResult, compute_gflops: float) -> bool:
    """Whether it tells against a node that is alone."""
    slow = compute_gflops > 0 and _passes(result, compute_gflops) is False
    return result.wrong or slow


def _key(result: DiagnosticResult) -> tuple[str, str, int]:
    return (result.node, result.test, result.round)


def _heard(node: str, known: Mapping[tuple[str, str, int], DiagnosticResult]) -> bool:
    return any(name == node for name, _, _ in known)


def _passes(result: DiagnosticResult, least: float) -> bool | None:
    if not result.ok:
        return result.ok
    return result.value is None or result.value >= least


def _compute(
    node: str,
    tests: tuple[DiagnosticOrder, ...],
    known: Mapping[tuple[str, str, int], DiagnosticResult],
    thresholds: Thresholds,
) -> bool | None:
    """True if it ever passed, False if every round failed, None where nothing is known."""
    found = [
        _passes(result, thresholds.compute_gflops)
        for test in tests
        if test.test == COMPUTE and (result := known.get((node, COMPUTE, test.round)))
    ]
    if True in found:
        return True
    return False if found.count(False) > 1 else None


def _matches(
    orders: Mapping[str, tuple[DiagnosticOrder, ...]],
    known: Mapping[tuple[str, str, int], DiagnosticResult],
    thresholds: Thresholds,
) -> list[_Match]:
    tests = {
        (order.round, order.members): order
        for tests in orders.values()
        for order in tests
        if order.test == ALLREDUCE
    }
    least = thresholds.allreduce_mb_per_s
    return [_match(turn, (first, second), known, least) for turn, (first, second) in sorted(tests)]


def _match(
    turn: int,
    members: tuple[str, str],
    known: Mapping[tuple[str, str, int], DiagnosticResult],
    least: float,
) -> _Match:
    ends = [known.get((node, ALLREDUCE, turn)) for node in members]
    said = [_passes(end, least) for end in ends if end]
    values = [end.value for end in ends if end and end.ok and end.value is not None]
    if not said:
        return _Match(turn, members, None, "no result from either end")
    if None in said:
        reason = next(end.detail for end in ends if end and end.ok is None)
        return _Match(turn, members, None, f"not run: {reason}")
    if True in said and (False in said or len(said) < 2):
        text = "its two ends disagree" if False in said else "one end alone says it passed"
        return _Match(turn, members, None, text)
    if False not in said:
        return _Match(turn, members, True, f"{min(values):.1f} MB/s" if values else "passed")
    slow = [f"{value:.1f} MB/s, below {least:.1f}" for value in values]
    failed = [end.detail or "failed" for end in ends if end and not end.ok]
    return _Match(turn, members, False, (failed + slow)[0], slow=not failed)


def _fails_with_the_good(
    node: str,
    matches: list[_Match],
    cleared: set[str],
    orders: Mapping[str, tuple[DiagnosticOrder, ...]],
) -> bool:
    """Failed each time, at least twice, once with a partner that passed with somebody else."""
    mine = [match for match in matches if node in match.members]
    failed = [match for match in mine if match.passed is False]
    partners = {name for match in failed for name in match.members if name != node}
    return len(failed) == len(mine) > 1 and bool(partners & cleared) and len(orders) > 2


def _apart(
    matches: list[_Match], computes: set[str], cleared: set[str]
) -> tuple[tuple[str, str], ...]:
    """Pairs whose every all-reduce failed, of nodes that compute well and that each passed with
    somebody else, or had nobody else.
    """
    good = computes & cleared if len(computes) > 2 else computes
    tried = {match.members: True for match in matches}
    for match in matches:
        tried[match.members] &= match.passed is False and not match.slow
    return tuple(sorted(two for two, failed in tried.items() if failed and good.issuperset(two)))


def _no_majority(
    bad: dict[str, str], undecided: set[str], tested: int
) -> tuple[dict[str, str], set[str], list[str]]:
    if len(bad) <= tested // 2:
        return bad, undecided, []
    doubt = f"{len(bad)} of {tested} nodes failed: more likely the test than the nodes"
    return {}, undecided | set(bad), [doubt]


def _compute_lines(
    orders: Mapping[str, tuple[DiagnosticOrder, ...]],
    known: Mapping[tuple[str, str, int], DiagnosticResult],
    thresholds: Thresholds,
) -> list[str]:
    lines = []
    for node in sorted(orders):
        found = [known.get((node, COMPUTE, test.round)) for test in orders[node]]
        told = [result for result in found if result and result.test == COMPUTE]
        least = thresholds.compute_gflops
        if not told:
            lines.append(f"compute {node}: no result")
        for result in told:
            if _passes(result, least) is not True:
                value = f"{result.value:.1f} GFLOP/s, below {least:.1f}" if result.ok else ""
                lines.append(f"compute {node}: {value or result.detail or 'failed'}")
    return list(dict.fromkeys(lines))


def _match_lines(matches: list[_Match], bad: Mapping[str, str]) -> list[str]:
    """One sentence: each match's figure, then whose part they point at."""
    if not matches:
        return []
    told = ", ".join(f"{'-'.join(match.members)}: {match.text}" for match in matches)
    blamed = [f"{node}'s {part}" for node, part in sorted(bad.items()) if part != Part.COMPUTE]
    nodes = {node for match in matches for node in match.members}
    if len(nodes) == 2 and not blamed and any(match.passed is False for match in matches):
        blamed = [f"link {'-'.join(matches[0].members)}, end unknown"]
    return [f"neighbour all-reduce {told}" + (f" -> {', '.join(blamed)}" if blamed else "")]
