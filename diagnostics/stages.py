"""Tests in stages: who was neither cleared nor convicted is tested again, beside others. Pure.

Used where nobody is accused and all are asked about: by the driver when a person wants a diagnosis,
and by `bench.diagnostics`. A node is bad whose same part failed in two stages, never in one, for of
many healthy nodes some fail once; so what lies now and then costs nobody healthy.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain

import msgspec

from holdfast.diagnostics.answers import Pair, passes
from holdfast.diagnostics.plan import partners
from holdfast.diagnostics.thresholds import Thresholds, thresholds
from holdfast.diagnostics.verdict import Verdict, judge
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult

MOST = 3
"""Stages of one diagnosis: the second convicts; the third is for who stood between two bad ones, or
met a result that was a lie."""


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


def following(
    stages: Sequence[Stage], verdict: Verdict, there: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Who is tested in the next stage, and who helps, of those that are `there`; nobody where all
    is settled, or nobody sound can help."""
    unsettled = [*sorted(verdict.again), *verdict.undecided]
    sound = [node for node in _nodes(stages) if node not in {*unsettled, *verdict.bad}]
    again = tuple(node for node in unsettled if node in there)
    helpers = partners(again, [node for node in sound if node in there], _met(stages, again))
    if not (again and helpers) or len(stages) >= MOST:
        return (), ()
    return again, helpers


def settled(stages: Sequence[Stage], node_class: Mapping[str, float] | None = None) -> Verdict:
    """What all stages together say. `again`: who failed once; `undecided`: who was not cleared;
    `apart`: pairs that failed whenever they met, and neither of which is bad.
    """
    least = thresholds(chain.from_iterable(stage.results for stage in stages), node_class)
    bad: dict[str, str] = {}
    once: dict[str, str] = {}
    unsettled: set[str] = set()
    evidence: list[str] = []
    apart: set[Pair] = set()
    for stage in stages:
        said = judge(stage.orders, stage.results, least, accused=once)
        bad |= {node: part for node, part in said.bad.items() if once[node] == part}
        once |= said.again | said.bad
        doubted = {node for two in said.apart if _ways(two).isdisjoint(apart) for node in two}
        unsettled -= stage.orders.keys()
        unsettled |= {*said.undecided, *said.again, *said.bad, *doubted, *_mixed(stage, least)}
        apart = (apart - _tried(stage)) | set(said.apart)
        evidence += said.evidence[: len(said.evidence) - len(said.again)]  # a stage follows
    return Verdict(
        bad=dict(sorted(bad.items())),
        undecided=tuple(sorted(unsettled - once.keys() - bad.keys())),
        again={node: once[node] for node in sorted(once) if node in unsettled - bad.keys()},
        evidence=tuple(dict.fromkeys(evidence)),
        apart=tuple(sorted(apart)),
        least=least.alone(),
    )


def _ways(two: Pair) -> set[Pair]:
    return {two, two[::-1]}


def _tried(stage: Stage) -> set[Pair]:
    """Pairs that met."""
    met = {tuple(each.members) for mine in stage.orders.values() for each in mine if each.members}
    return {way for one, other in met for way in _ways((one, other))}


def _mixed(stage: Stage, least: Thresholds) -> set[str]:
    """Who passed a test of its own in one round and not in another: one of them is a lie, or so
    busy a moment that it is no measure."""
    said: dict[tuple[str, str], set[bool]] = {}
    for each in stage.results:
        passed = passes(each, least.of(each.test))
        if not each.members and passed is not None and each.node in stage.orders:
            said.setdefault((each.node, each.test), set()).add(passed)
    return {node for (node, _), told in said.items() if len(told) > 1}


def _nodes(stages: Sequence[Stage]) -> list[str]:
    return list(dict.fromkeys(node for stage in stages for node in stage.orders))


def _met(stages: Sequence[Stage], nodes: Collection[str]) -> set[str]:
    """With whom these were tested."""
    each = (order for stage in stages for node in nodes for order in stage.orders.get(node, ()))
    return {name for order in each for name in order.members}.difference(nodes)
