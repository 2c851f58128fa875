"""What the tests say that two nodes run together. Pure; called by `verdict`."""

from collections.abc import Collection, Mapping

from holdfast.diagnostics.answers import Answers, Pair, PairRun, TestOutcome
from holdfast.diagnostics.registry import Test
from holdfast.protocol.messages import DiagnosticResult


def outcome(test: Test, answers: Answers) -> TestOutcome:
    """A node is good if it ever passed, and bad if it failed with the good."""
    found = runs(test, answers)
    good, few = _cleared(found), len(answers.orders) < 3
    nodes = sorted({node for run in found for node in run.members})
    bad = {node for node in nodes if not few and _fails_with_the_good(node, found, good)}
    said = {node: node in good or (False if node in bad else None) for node in nodes}
    return TestOutcome(test, said, tuple(found))


def runs(test: Test, answers: Answers) -> list[PairRun]:
    """All of one test, by round. What their two ends tell differently says nothing."""
    asked = {
        (order.round, order.members)
        for orders in answers.orders.values()
        for order in orders
        if order.test == test.name
    }
    return [_run(test, turn, (one, other), answers) for turn, (one, other) in sorted(asked)]


def _run(test: Test, turn: int, members: Pair, answers: Answers) -> PairRun:
    ends = [end for node in members if (end := answers.of(node, test, turn))]
    said = [answers.passed(end) for end in ends]
    if not said:
        return PairRun(members, None, "no result from either end")
    if None in said:
        reason = next(end.detail for end in ends if end.ok is None)
        return PairRun(members, None, f"not run: {reason}")
    if set(said) == {True, False} and (mean := _alike(ends)):
        least = answers.thresholds.of(test.name)
        return _agreed(test, members, ends, answers, passed=mean >= least)
    if True in said and (False in said or len(said) < 2):
        text = "its two ends disagree" if False in said else "one end alone says it passed"
        return PairRun(members, None, text)
    return _agreed(test, members, ends, answers, passed=True in said)


ALIKE = 1.5
"""Times that one end may reach of the other's where both measured the same: each has its own clock,
and on a busy machine either may be late to look. A lie is further off, or says nothing."""


def _alike(ends: list[DiagnosticResult]) -> float:
    """What two ends measured that are a little apart, on both sides of what passes; 0: no such."""
    values = [end.value for end in ends if end.ok and end.value]
    alike = len(values) == 2 and max(values) <= ALIKE * min(values)
    return sum(values) / 2 if alike else 0.0


def _agreed(
    test: Test, members: Pair, ends: list[DiagnosticResult], answers: Answers, *, passed: bool
) -> PairRun:
    values = [end.value for end in ends if end.ok and end.value is not None]
    if passed:
        return PairRun(members, True, f"{min(values):.1f} {test.unit}" if values else "passed")
    failed = [end.detail or "failed" for end in ends if not end.ok]
    least = answers.thresholds.of(test.name)
    slow = [f"{min(values):.1f} {test.unit}, below {least:.1f}"] if values else []
    return PairRun(members, False, (failed + slow)[0], slow=not failed)


def _cleared(found: Collection[PairRun]) -> set[str]:
    return {node for run in found if run.passed for node in run.members}


def _fails_with_the_good(node: str, found: list[PairRun], good: set[str]) -> bool:
    """Failed each time, at least twice, once with a partner that passed with somebody else."""
    mine = [run for run in found if node in run.members]
    failed = [run for run in mine if run.passed is False]
    partners = {name for run in failed for name in run.members if name != node}
    return len(failed) == len(mine) > 1 and bool(partners & good)


def apart(found: TestOutcome, sound: set[str]) -> set[Pair]:
    """Pairs whose every run failed, of nodes that are sound by themselves and that each passed
    with somebody else, or had nobody else.
    """
    good = sound & _cleared(found.runs) if len(sound) > 2 else sound
    tried = {run.members: True for run in found.runs}
    for run in found.runs:
        tried[run.members] &= run.passed is False and not run.slow
    return {two for two, failed in tried.items() if failed and good.issuperset(two)}


def line(found: TestOutcome, blamed: Mapping[str, str]) -> str:
    """One sentence: each run's figure, then whose part they point at."""
    told = ", ".join(f"{'-'.join(run.members)}: {run.text}" for run in found.runs)
    whose = [f"{node}'s {part}" for node, part in sorted(blamed.items())]
    if len(found.nodes) == 2 and not whose and any(m.passed is False for m in found.runs):
        whose = [f"link {'-'.join(found.runs[0].members)}, end unknown"]
    return f"{found.test.title} {told}" + (f" -> {', '.join(whose)}" if whose else "")
