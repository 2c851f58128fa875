"""The tables of a node's facets name no way that nobody takes: lives take each of them."""

from collections.abc import Iterator

import pytest

from holdfast.driver.core.state import edges
from holdfast.driver.core.state.edges import FACETS
from holdfast.driver.core.state.node import Node
from holdfast.driver.core.state.value import Value
from holdfast.lab.simulator.families.table import FAMILIES
from holdfast.lab.simulator.simulate import explain, run

LIVES = {
    "mixed": 200,
    "suspects": 30,
    "driver-stalled": 30,
    "overruled": 10,
    "same-name": 10,
}
"""Seeds of the families that between them take each way more than once."""

Way = tuple[str, type[Value], type[Value]]


def ways(old: Node, new: Node) -> Iterator[Way]:
    for facet in FACETS:
        before, after = getattr(old, facet), getattr(new, facet)
        if before is not after:
            yield facet, type(before), type(after)


def test_each_way_of_a_node_s_facets_is_taken_in_some_life(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[Way] = set()
    real = edges.check_node

    def check(old: Node, new: Node) -> None:
        taken.update(ways(old, new))
        real(old, new)

    monkeypatch.setattr(edges, "check_node", check)
    for family, seeds in LIVES.items():
        for seed in range(seeds):
            failure = run(FAMILIES[family](seed))
            assert failure is None, explain(failure)
    table = {(facet, *way) for facet, known in FACETS.items() for way in known}
    unused = [f"{facet}: {a.__name__} -> {b.__name__}" for facet, a, b in table - taken]
    assert not sorted(unused)
