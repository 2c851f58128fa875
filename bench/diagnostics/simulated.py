"""Diagnoses of made-up nodes: how often the plan, the stages and the verdict find who is bad.

Called by `holdfast bench diagnostics --simulated`. Nothing is measured: nodes of which some are bad
say what such nodes would, and a share of what they say is a lie. It asks of the rules, not of the
probes.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random

import msgspec
from rich.console import Console
from rich.table import Table

from holdfast.diagnostics.calibration import upper_bound
from holdfast.diagnostics.plan import orders
from holdfast.diagnostics.registry import TESTS
from holdfast.diagnostics.stages import Stage, following, settled
from holdfast.diagnostics.verdict import Verdict
from holdfast.protocol import exitcodes
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult

SPREAD = {"compute": 0.05, "allreduce": 0.05}
"""Of what healthy nodes reach in a test in whose result time has a part: the standard deviation of
its logarithm. Healthy pairs of eight emulated nodes at 100 Mbit/s reached 10.3 to 11.8 MB/s."""
HEALTHY = 100.0

Bad = Mapping[str, tuple[str, float]]
"""Node to the test that it does badly in, and the share of a healthy one's that it reaches."""


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

    @property
    def false_at_most(self) -> float:
        return upper_bound(self.false, self.good) if self.good else 0.0


def diagnose(names: Sequence[str], bad: Bad, rng: Random, *, lies: float) -> Verdict:
    """All stages of one diagnosis."""
    stages: list[Stage] = []
    tested, helpers = tuple(names), tuple[str, ...]()
    apart = tuple[tuple[str, str], ...]()
    while tested:
        plan = orders(
            id=f"stage-{len(stages)}",
            suspects=tested,
            healthy=helpers,
            addresses=dict.fromkeys(names, "198.18.0.1"),
            again=apart,
            thorough=True,
        )
        stages.append(Stage(plan, tuple(_told(plan, bad, rng, lies))))
        verdict = settled(stages)
        apart = verdict.apart
        tested, helpers = following(stages, verdict, names)
    return verdict


def _told(
    plan: Mapping[str, Sequence[DiagnosticOrder]], bad: Bad, rng: Random, lies: float
) -> list[DiagnosticResult]:
    values: dict[tuple[object, ...], float] = {}
    found = []
    for node, mine in plan.items():
        for order in mine:
            run = (order.test, order.round, order.members or node)
            if run not in values:
                values[run] = _value(order, order.members or (node,), bad, rng)
            told = _result(order, node, values[run])
            found.append(_lie(told, rng) if rng.random() < lies else told)
    return found


def _value(order: DiagnosticOrder, members: Sequence[str], bad: Bad, rng: Random) -> float:
    found = (bad.get(node, ("", 1.0)) for node in members)
    share = min((share for test, share in found if test == order.test), default=1.0)
    return HEALTHY * share * rng.lognormvariate(0.0, SPREAD.get(order.test, 0.0))


def _result(order: DiagnosticOrder, node: str, value: float) -> DiagnosticResult:
    return DiagnosticResult(
        id=order.id,
        test=order.test,
        node=node,
        round=order.round,
        members=order.members,
        ok=True,
        value=value,
    )


def _lie(told: DiagnosticResult, rng: Random) -> DiagnosticResult:
    """Anything but what was measured."""
    failed = msgspec.structs.replace(told, ok=False, value=None, detail="a lie")
    value = (told.value or HEALTHY) * rng.choice((0.1, 0.5, 2.0, 10.0))
    return rng.choice((failed, msgspec.structs.replace(told, value=value)))


# ---------------------------------------------------------------- faults


SLOW_LINK, HALF_LINK, LOSS = ("allreduce", 0.1), ("allreduce", 0.5), ("datagrams", 0.95)
HALF_SPEED, QUOTA = ("compute", 0.5), ("cpus", 0.5)


def _one(fault: tuple[str, float]) -> Callable[[list[str], Random], Bad]:
    return lambda names, rng: {rng.choice(names): fault}


def _paired(names: list[str], rng: Random) -> Bad:
    at = rng.randrange(len(names))
    return {names[at]: SLOW_LINK, names[(at + 1) % len(names)]: SLOW_LINK}


def _first_and_last(names: list[str], _rng: Random) -> Bad:
    return {names[0]: SLOW_LINK, names[-1]: HALF_SPEED}


FAULTS: Mapping[str, Callable[[list[str], Random], Bad]] = {
    "none": lambda _names, _rng: {},
    "a link at 1/10": _one(SLOW_LINK),
    "a link at 1/2": _one(HALF_LINK),
    "5 % loss": _one(LOSS),
    "compute at 1/2": _one(HALF_SPEED),
    "half the CPUs by quota": _one(QUOTA),
    "two links at 1/10, paired": _paired,
    "first link 1/10, last compute 1/2": _first_and_last,
}


def tally(fault: str, nodes: int, *, lies: float, runs: int, seed: int) -> Tally:
    """So many diagnoses, from the seed."""
    found, rng = Tally(fault=fault, nodes=nodes, lies=lies), Random(f"{fault} {nodes} {seed}")
    names = [f"node-{number}" for number in range(1, nodes + 1)]
    for _ in range(runs):
        bad = FAULTS[fault](names, rng)
        _count(found, bad, diagnose(names, bad, rng, lies=lies))
    return found


def _count(found: Tally, bad: Bad, verdict: Verdict) -> None:
    right = {node: TESTS[test].part for node, (test, _) in bad.items()}
    found.runs += 1
    found.bad += len(bad)
    found.found += sum(verdict.bad.get(node) == part for node, part in right.items())
    found.unsure += sum(node in {*verdict.undecided, *verdict.again} for node in bad)
    found.false += len(verdict.bad.keys() - bad.keys())
    found.good += found.nodes - len(bad)


NODES = (2, 4, 8, 16, 64)
LIES = (0.0, 0.05)


def run(*, runs: int, as_json: bool) -> int:
    """Tell each fault by so many diagnoses of each size; the exit code."""
    found = [
        tally(fault, nodes, lies=lies, runs=runs, seed=1)
        for lies in LIES
        for nodes in NODES
        for fault in FAULTS
    ]
    if as_json:
        print(msgspec.json.encode(found).decode())
    else:
        _show(Console(), found)
    return exitcodes.OK


def _show(console: Console, found: Sequence[Tally]) -> None:
    table = Table("fault", title="diagnoses of made-up nodes; bounds at 95 %")
    for heading in ("nodes", "lies", "bad", "found", "unsure", "good", "false", "at most"):
        table.add_column(heading, justify="right")
    for each in found:
        counts = (each.bad, each.found, each.unsure, each.good, each.false)
        rate = f"{each.false_at_most:.2%}" if each.good else "-"
        shown = [f"{each.lies:.0%}", *map(str, counts)]
        table.add_row(each.fault, str(each.nodes), *shown, rate)
    console.print(table)
