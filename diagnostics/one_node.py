"""What the tests say that a node runs by itself. Pure; called by `verdict`."""

from holdfast.diagnostics.answers import Answers, TestOutcome
from holdfast.diagnostics.registry import Test
from holdfast.protocol.messages import DiagnosticResult


def outcome(test: Test, answers: Answers) -> TestOutcome:
    """A node is good if it ever passed, and bad if it failed more than once and never passed."""
    asked = {node: answers.rounds(node, test) for node in answers.orders}
    return TestOutcome(test, {node: _good(node, test, answers) for node in asked if asked[node]})


def _good(node: str, test: Test, answers: Answers) -> bool | None:
    passed = [answers.passed(result) for result in _results(node, test, answers) if result]
    if True in passed:
        return True
    return False if passed.count(False) > 1 else None


def convicts_alone(node: str, test: Test, answers: Answers) -> bool:
    """Whether every round, and more than one, tells against a node that has no fellows."""
    found = _results(node, test, answers)
    return len(found) > 1 and all(result and _tells(result, answers) for result in found)


def _tells(result: DiagnosticResult, answers: Answers) -> bool:
    least = answers.thresholds.of(result.test)
    return result.wrong or (least > 0 and answers.passed(result) is False)


def _results(node: str, test: Test, answers: Answers) -> list[DiagnosticResult | None]:
    return [answers.of(node, test, turn) for turn in answers.rounds(node, test)]


def lines(test: Test, answers: Answers) -> list[str]:
    """Evidence: what did not pass, and who said nothing."""
    told: list[str] = []
    for node in sorted(answers.orders):
        found = [result for result in _results(node, test, answers) if result]
        failed = [result for result in found if answers.passed(result) is not True]
        told += [f"{test.title} {node}: {_text(test, result, answers)}" for result in failed]
        if not found:
            told.append(f"{test.title} {node}: no result")
    return list(dict.fromkeys(told))


def _text(test: Test, result: DiagnosticResult, answers: Answers) -> str:
    if not result.ok:
        return result.detail or "failed"
    return f"{result.value:.1f} {test.unit}, below {answers.thresholds.of(test.name):.1f}"
