"""Tests in stages: who was neither cleared nor convicted is tested again, beside others. Pure.

Used where nobody is accused and all are asked about: by the driver when a person wants a diagnosis,
and by `bench.diagnostics`. A node is bad whose same part failed in two stages, never in one, for of
many healthy nodes some fail once; so what lies now and then costs nobody healthy.
"""

from collections.abc import Collection, Sequence
from itertools import chain

import msgspec

from holdfast.diagnostics import node_pairs, one_node
from holdfast.diagnostics.answers import Pair, answers, passes
from holdfast.diagnostics.registry import Part
from holdfast.diagnostics.sides import Met, Sides, in_vain, sides
from holdfast.diagnostics.thresholds import Known, Thresholds, thresholds
from holdfast.diagnostics.verdict import Verdict, judge
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult


class Stage(msgspec.Struct, frozen=True):
    """What was ordered of the nodes at once, and what they told."""

    orders: dict[str, tuple[DiagnosticOrder, ...]]
    results: tuple[DiagnosticResult, ...]

    def without(self, gone: Collection[str]) -> "Stage":
        """As if these had not taken part: of whoever was their partner it says nothing."""
        kept = {node: mine for node, mine in self.orders.items() if node not in gone}
        orders = {
            node: tuple(each for each in mine if not set(gone) & set(each.members))
            for node, mine in kept.items()
        }
        return Stage(orders, self.results)


def settled(stages: Sequence[Stage], known: Known | None = None) -> Verdict:
    """What all stages together say. `again`: who failed once; `undecided`: who was not cleared;
    `apart`: pairs that failed whenever they met, and neither of which is bad; `sides`: two that
    explain all of these, once a second stage did not contradict them.
    """
    least = least_of(stages, known)
    met = ways(stages, least)
    split = sides(met)
    bad: dict[str, str] = {}
    once: dict[str, str] = {}
    unsettled: set[str] = set()
    evidence: list[str] = []
    apart: set[Pair] = set()
    for stage in stages:
        said = judge(stage.orders, stage.results, least, accused=once)
        bad |= {node: part for node, part in said.bad.items() if once[node] == part}
        once |= said.again | said.bad
        unsettled -= stage.orders.keys()
        doubted = {node for two in said.apart if _ways(two).isdisjoint(apart) for node in two}
        unsettled |= {*said.undecided, *said.again, *said.bad, *doubted, *_mixed(stage, least)}
        apart = (apart - _tried(stage)) | set(said.apart)
        evidence += said.evidence[: len(said.evidence) - len(said.again)]  # a stage follows
    told = split.told() if len(stages) > 1 else ()
    bad = _without_excused(bad, met, split)
    unsettled -= _well(stages, least) - in_vain(met) if told else set()
    return Verdict(
        bad=dict(sorted(bad.items())),
        undecided=tuple(sorted(unsettled - once.keys() - bad.keys())),
        again={node: once[node] for node in sorted(once) if node in unsettled - bad.keys()},
        evidence=tuple(dict.fromkeys(evidence)),
        apart=tuple(sorted(apart)),
        sides=told,
        least=least.alone(),
    )


def least_of(stages: Sequence[Stage], known: Known | None = None) -> Thresholds:
    """What all of them had to reach."""
    return thresholds(chain.from_iterable(stage.results for stage in stages), known=known)


def ways(stages: Sequence[Stage], least: Thresholds) -> dict[Pair, bool]:
    """Pairs that met: whether they passed all tests of the last stage in which that was told."""
    found: dict[Pair, bool] = {}
    for stage in stages:
        known, now = answers(stage.orders, stage.results, least), dict[Pair, set[bool | None]]()
        for run in (run for test in known.tests(2) for run in node_pairs.runs(test, known)):
            one, other = sorted(run.members)
            now.setdefault((one, other), set()).add(run.passed)
        found |= {
            two: False not in said for two, said in now.items() if False in said or None not in said
        }
    return found


def _without_excused(bad: dict[str, str], met: Met, split: Sides) -> dict[str, str]:
    """Not whose link may be well: it passed with somebody, it is on a side with others, or it has
    not failed with another one whose link is said to be bad. What is bad may be the way between."""
    links = {node for node, part in bad.items() if part == Part.LINK}
    alone = {node for node in links & in_vain(met) if not (split.agree and split.mates(node))}
    failed = {node for two in met if alone.issuperset(two) for node in two}
    kept = alone if len(alone) == 1 else failed
    kept = kept if split.agree or _explained(kept, met) else set()
    return {node: part for node, part in bad.items() if node not in links or node in kept}


def _explained(bad: set[str], met: Met) -> bool:
    """Whether most pairs that failed have one of these."""
    failed = [two for two, passed in met.items() if not passed]
    return 2 * sum(not bad.isdisjoint(two) for two in failed) > len(failed)


def _well(stages: Sequence[Stage], least: Thresholds) -> set[str]:
    """Who passed each test of its own in the last stage that it was in."""
    well: set[str] = set()
    for stage in stages:
        known = answers(stage.orders, stage.results, least)
        failed = {
            node
            for test in known.tests(1)
            for node, good in one_node.outcome(test, known).nodes.items()
            if not good
        }
        well = (well | stage.orders.keys()) - failed - _mixed(stage, least)
    return well


def _ways(two: Pair) -> set[Pair]:
    return {two, two[::-1]}


def _tried(stage: Stage) -> set[Pair]:
    """Pairs that met."""
    met = {tuple(each.members) for mine in stage.orders.values() for each in mine if each.members}
    return {way for one, other in met for way in _ways((one, other))}


def _mixed(stage: Stage, least: Thresholds) -> set[str]:
    """Who passed a test of its own, and not more often than it failed: something of that is a lie,
    or so busy a moment that it is no measure."""
    said: dict[tuple[str, str], list[bool]] = {}
    for each in stage.results:
        passed = passes(each, least.of(each.test))
        if not each.members and passed is not None and each.node in stage.orders:
            said.setdefault((each.node, each.test), []).append(passed)
    return {node for (node, _), told in said.items() if 0 < sum(told) <= len(told) / 2}
