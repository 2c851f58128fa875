"""Diagnoses of made-up nodes: how often the plan, the stages and the verdict find who is bad.

Called by `holdfast bench diagnostics --simulated`. Nothing is measured: nodes of which some are bad
say what such nodes would, and a share of what they say is a lie. It asks of the rules, not of the
probes.
"""

from collections.abc import Sequence
from random import Random

import msgspec
from rich.console import Console
from rich.table import Table

from holdfast.bench.diagnostics.worlds import FAULTS, PARTITIONS, World, told
from holdfast.diagnostics.calibration import upper_bound
from holdfast.diagnostics.following import Next, following
from holdfast.diagnostics.plan import orders
from holdfast.diagnostics.registry import TESTS
from holdfast.diagnostics.stages import Stage, settled
from holdfast.diagnostics.verdict import Verdict
from holdfast.protocol import exitcodes


class Tally(msgspec.Struct, kw_only=True):
    """Diagnoses of one fault among so many nodes."""

    fault: str
    nodes: int
    lies: float
    runs: int = 0
    bad: int = 0  # nodes
    found: int = 0  # of them, with the right part
    unsure: int = 0  # of them, not called good either
    false: int = 0  # good nodes that were called bad
    good: int = 0
    unclear: int = 0  # of them, not called good either
    split: int = 0  # diagnoses that told both sides where there are two, and else none

    @property
    def false_at_most(self) -> float:
        return upper_bound(self.false, self.good) if self.good else 0.0


def diagnose(names: Sequence[str], world: World, rng: Random, *, lies: float) -> Verdict:
    """All stages of one diagnosis."""
    stages: list[Stage] = []
    next_one = Next(tested=tuple(names))
    while next_one.tested:
        plan = orders(
            id=f"stage-{len(stages)}",
            suspects=next_one.tested,
            healthy=next_one.helpers,
            addresses=dict.fromkeys(names, "198.18.0.1"),
            again=next_one.again,
            thorough=True,
        )
        stages.append(Stage(plan, tuple(told(plan, world, rng, lies))))
        verdict = settled(stages)
        next_one = following(stages, verdict, names)
    return verdict


def tally(fault: str, nodes: int, *, lies: float, runs: int, seed: int) -> Tally:
    """So many diagnoses, from the seed."""
    found, rng = Tally(fault=fault, nodes=nodes, lies=lies), Random(f"{fault} {nodes} {seed}")
    names = [f"node-{number}" for number in range(1, nodes + 1)]
    for _ in range(runs):
        world = ALL[fault](names, rng)
        _count(found, world, diagnose(names, world, rng, lies=lies))
    return found


def _count(found: Tally, world: World, verdict: Verdict) -> None:
    bad = world.bad
    right = {node: TESTS[test].part for node, (test, _) in bad.items()}
    found.runs += 1
    found.bad += len(bad)
    found.found += sum(verdict.bad.get(node) == part for node, part in right.items())
    found.unsure += sum(node in {*verdict.undecided, *verdict.again} for node in bad)
    found.false += len(verdict.bad.keys() - bad.keys())
    found.good += found.nodes - len(bad)
    found.unclear += sum(node not in bad for node in verdict.unsettled)
    found.split += set(map(frozenset, verdict.sides)) == _racks(world, found.nodes)


def _racks(world: World, nodes: int) -> set[frozenset[str]]:
    names = frozenset(f"node-{number}" for number in range(1, nodes + 1))
    return {side - frozenset(world.bad) for side in (world.rack, names - world.rack) if world.rack}


ALL = {**FAULTS, **PARTITIONS}
NODES = (2, 4, 8, 16, 64)
RACKS_FROM = 8
"""Of so many nodes and more there are racks."""
LIES = (0.0, 0.05)


def run(*, runs: int, as_json: bool) -> int:
    """Tell each fault by so many diagnoses of each size; the exit code."""
    found = [
        tally(fault, nodes, lies=lies, runs=runs, seed=1)
        for lies in LIES
        for nodes in NODES
        for fault in (FAULTS if nodes < RACKS_FROM else ALL)
    ]
    if as_json:
        print(msgspec.json.encode(found).decode())
    else:
        _show(Console(), found)
    return exitcodes.OK


def _show(console: Console, found: Sequence[Tally]) -> None:
    table = Table("fault", title="diagnoses of made-up nodes; bounds at 95 %")
    for heading in (
        "nodes",
        "lies",
        "bad",
        "found",
        "unsure",
        "good",
        "unclear",
        "false",
        "at most",
    ):
        table.add_column(heading, justify="right")
    for each in found:
        counts = (each.bad, each.found, each.unsure, each.good, each.unclear, each.false)
        rate = f"{each.false_at_most:.2%}" if each.good else "-"
        shown = [f"{each.lies:.0%}", *map(str, counts)]
        table.add_row(each.fault, str(each.nodes), *shown, rate)
    console.print(table)
