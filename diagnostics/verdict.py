"""From what the nodes measured to which part of which node is bad. Pure; called by the driver.

Must not convict on one result, which may be a lie, nor a majority of those tested: then it is more
likely the test that is wrong. It says what is bad, never what becomes of a node.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from holdfast.diagnostics import node_pairs, one_node
from holdfast.diagnostics.answers import Answers, Orders, TestOutcome, answers
from holdfast.diagnostics.registry import Part
from holdfast.diagnostics.thresholds import Thresholds, of_class
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult

__all__ = ["Part", "Verdict", "judge", "judge_alone"]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """`bad`: node -> part. `undecided`: could be neither cleared nor convicted. Sorted by name.
    `apart`: pairs that failed together, and neither of which is bad. `again`: as `bad`, but nobody
    had accused them; examine them once more, with other partners. `sides`: who is well among
    themselves, and not with those of the other one.
    """

    bad: dict[str, str]
    undecided: tuple[str, ...]
    evidence: tuple[str, ...]
    apart: tuple[tuple[str, str], ...] = ()
    again: dict[str, str] = {}
    sides: tuple[tuple[str, ...], ...] = ()
    least: dict[str, float] = {}  # what a node has to reach that is tested alone, as a node class

    @property
    def unsettled(self) -> set[str]:
        """Neither good nor bad so far."""
        return {*self.undecided, *self.again}


def judge(
    orders: Orders,
    results: Iterable[DiagnosticResult],
    thresholds: Thresholds,
    *,
    accused: Collection[str] | None = None,
    fellows: Collection[str] = (),
) -> Verdict:
    """Whom the results convict. A result that is missing at its time counts as a failure.

    A node is cleared by one run that it passed, and convicted by failing every run it was in,
    one of them with a cleared partner, or by failing every round of a test of its own. What the two
    ends of a run tell differently says nothing.

    Of a node that nobody accused (`accused`; None: each was) one exam is not enough, for of many
    that are healthy some fail. Who failed is accused in the next one.

    `fellows`: those that run the job's image, where others help. A majority is one of these.
    """
    if not orders:
        return Verdict(bad={}, undecided=(), evidence=())
    known = answers(orders, results, thresholds)
    alone = [one_node.outcome(test, known) for test in known.tests(1)]
    together = [node_pairs.outcome(test, known) for test in known.tests(2)]
    found = (*alone, *together)
    failed, doubt = _no_majority(_failed(found, known), fellows if len(fellows) > 1 else orders)
    again = _unaccused(failed, accused)
    return Verdict(
        bad={node: part for node, part in sorted(failed.items()) if node not in again},
        undecided=_sorted(set(orders) - set(failed) - _good(orders, found)),
        evidence=(*_evidence(known, alone, together, failed), *doubt, *_said_of(again)),
        apart=_apart(together, _good(orders, alone)),
        again=again,
        least=thresholds.alone(),
    )


def judge_alone(
    node: str,
    orders: tuple[DiagnosticOrder, ...],
    results: Iterable[DiagnosticResult],
    node_class: Mapping[str, float],
    *,
    accused: bool = True,
) -> Verdict:
    """Of a node that was tested with nobody beside it: no fellow says what a good one reaches.

    It is cleared by each test that it passed once. It is convicted where every round of one came
    out wrong; of being slow, or out of time, only where its node class says what it must reach
    (`node_class`, by the names there), for a busy machine looks the same. Where nobody `accused` it
    no exam alone is enough, as `judge` says.
    """
    known = answers({node: orders}, results, of_class(node_class))
    found = [one_node.outcome(test, known) for test in known.tests(1)]
    bad = [each.test.part for each in found if one_node.convicts_alone(node, each.test, known)]
    failed: dict[str, str] = {node: bad[0]} if bad else {}
    again = {} if accused else failed
    return Verdict(
        bad=failed if accused else {},
        undecided=() if bad else _sorted({node} - _good({node}, found)),
        evidence=(*_evidence(known, found, [], {}), *_said_of(again)),
        again=again,
    )


def _failed(found: Iterable[TestOutcome], known: Answers) -> dict[str, str]:
    """Node -> part; of several tests that a node failed the first says which."""
    failed: dict[str, str] = {}
    for each in found:
        for node, good in each.nodes.items():
            if good is False:
                failed.setdefault(node, each.part(node, known))
    return failed


def _good(nodes: Iterable[str], found: Collection[TestOutcome]) -> set[str]:
    """Whom every test that they ran clears, of those that ran one."""
    said = {node: [each.nodes[node] for each in found if node in each.nodes] for node in nodes}
    return {node for node, each in said.items() if each and all(each)}


def _no_majority(
    failed: dict[str, str], tested: Collection[str]
) -> tuple[dict[str, str], list[str]]:
    bad, all_ = len(failed.keys() & set(tested)), len(tested)
    if bad <= all_ // 2:
        return failed, []
    return {}, [f"{bad} of {all_} nodes failed: more likely the test than the nodes"]


def _evidence(
    known: Answers, alone: list[TestOutcome], together: list[TestOutcome], failed: Mapping[str, str]
) -> list[str]:
    lines = [line for each in alone for line in one_node.lines(each.test, known)]
    for each in together:
        mine = [node for node, good in each.nodes.items() if good is False]
        blamed = {
            node: part for node in mine if (part := failed.get(node)) == each.part(node, known)
        }
        lines.append(node_pairs.line(each, blamed))
    return lines


def _unaccused(failed: dict[str, str], accused: Collection[str] | None) -> dict[str, str]:
    known = failed if accused is None else accused
    return {node: part for node, part in sorted(failed.items()) if node not in known}


def _said_of(again: Collection[str]) -> list[str]:
    return [f"{node} failed, but nobody had accused it: one exam is not enough" for node in again]


def _apart(together: list[TestOutcome], sound: set[str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({two for each in together for two in node_pairs.apart(each, sound)}))


def _sorted(nodes: set[str]) -> tuple[str, ...]:
    return tuple(sorted(nodes))
