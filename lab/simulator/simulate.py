"""Run a scenario to its end, shrink one that fails, and tell its story.

Called by the tests and by `python -m holdfast.lab.simulator`.
"""

from collections.abc import Iterable
from functools import partial
from multiprocessing import get_context

import msgspec
from msgspec.structs import replace

from holdfast.diagnostics.registry import only
from holdfast.driver.core.state.edges import IllegalTransition
from holdfast.lab.simulator import detectors, people, processes
from holdfast.lab.simulator.books import Outcome
from holdfast.lab.simulator.close_books import close, measured
from holdfast.lab.simulator.effects import world_of
from holdfast.lab.simulator.families.table import FAMILIES
from holdfast.lab.simulator.faults.table import inject, mend, repair_all
from holdfast.lab.simulator.rules import bounds, notices
from holdfast.lab.simulator.rules.ends import unfinished, verdict, waits_for_people
from holdfast.lab.simulator.scenario import FAULTS_UNTIL_S, Scenario
from holdfast.lab.simulator.violation import Violation
from holdfast.lab.simulator.waits import Measured
from holdfast.lab.simulator.world import World

QUIET_LIMIT_S = 8_000.0
"""Virtual seconds within which everything converges once nothing goes wrong any more: several
times the longest wait of the policy (600 s) plus the training itself."""
ATTEND_S = 30.0
"""How often people look after the cluster then."""
LOOKS = 86_400
"""At most so many looks at the bounds before that: each second of a day, or each 30 of a month."""


TESTED = ("compute", "allreduce")
"""The tests of simulated nodes: lives stay what they are when another is registered."""


class Failure(msgspec.Struct, frozen=True):
    """A scenario that broke a rule."""

    scenario: Scenario
    rule: str
    text: str
    story: tuple[str, ...]


class Life(msgspec.Struct, frozen=True):
    """A scenario that was simulated."""

    outcome: Outcome
    measured: Measured
    failure: Failure | None = None


@only(*TESTED)
def live(scenario: Scenario) -> Life:
    """Simulate: what it came to, and the rule that it broke, if any."""
    world = world_of(scenario)
    try:
        _play(world)
        _converge(world)
        verdict(world)
    except (Violation, IllegalTransition, AssertionError, KeyError, RecursionError) as error:
        rule = error.rule if isinstance(error, Violation) else type(error).__name__
        failure = Failure(scenario, rule, str(error), _story(world))
        return Life(close(world, rule), measured(world), failure)
    return Life(close(world), measured(world))


def run(scenario: Scenario) -> Failure | None:
    """Simulate; None if every rule held and all converged."""
    return live(scenario).failure


@only(*TESTED)
def play(scenario: Scenario) -> World:
    """Simulate a scenario that breaks no rule, and give its world, journal and all."""
    world = world_of(scenario)
    _play(world)
    _converge(world)
    return world


def _play(world: World) -> None:
    world.driver.start()
    for machine in world.machines.values():
        processes.boot(world, machine)
    for job in world.scenario.jobs:
        world.agenda.after(job.at_s, partial(people.submit, world, job))
    for fault in world.scenario.faults:
        world.agenda.after(fault.at_s, partial(inject, world, fault))
    if world.scenario.repairs_s is not None:
        world.agenda.after(world.scenario.repairs_s, lambda: _repair(world))
    if world.scenario.heartbeats:
        detectors.start(world)
    _look(world, max(bounds.LOOK_S, world.scenario.until_s / LOOKS))
    _until(world, world.scenario.until_s)


def _repair(world: World) -> None:
    """People come now and then: what is broken they repair, and the rest goes on going wrong."""
    every_s = world.scenario.repairs_s
    if every_s is not None and world.now < world.scenario.until_s:
        mend(world)
        people.attend(world)
        world.agenda.after(every_s, lambda: _repair(world))


def _look(world: World, every_s: float) -> None:
    bounds.look(world)
    notices.look(world)
    world.agenda.after(every_s, lambda: _look(world, every_s))


def _converge(world: World) -> None:
    repair_all(world)
    while (left := unfinished(world)) and not waits_for_people(world):
        if world.now > QUIET_LIMIT_S + world.scenario.until_s - FAULTS_UNTIL_S:
            raise Violation("everything-converges", left)
        if world.scenario.attended:
            people.attend(world)
        _until(world, world.agenda.now + ATTEND_S)


def _until(world: World, end_s: float) -> None:
    while (due := world.agenda.next_s()) is not None and due <= end_s:
        world.agenda.step()
    world.agenda.now = max(world.agenda.now, end_s)


def shrink(failure: Failure) -> Failure:
    """Leave faults and jobs out for as long as the same rule still breaks."""
    best, smaller = failure, True
    while smaller:
        smaller = False
        for candidate in _smaller(best.scenario):
            again = run(candidate)
            if again is not None and again.rule == failure.rule:
                best, smaller = again, True
                break
    return best


def _smaller(scenario: Scenario) -> Iterable[Scenario]:
    for k in range(len(scenario.faults)):
        yield replace(scenario, faults=scenario.faults[:k] + scenario.faults[k + 1 :])
    if len(scenario.jobs) > 1:
        for k in range(len(scenario.jobs)):
            yield replace(scenario, jobs=scenario.jobs[:k] + scenario.jobs[k + 1 :])


def _story(world: World) -> tuple[str, ...]:
    """Every entry: what happened, and what was decided on it."""
    return tuple(
        f"{entry.at}  {type(entry.event).__name__:20}  {entry.why}"
        for entry in world.driver.journal
    )


def explain(failure: Failure, *, lines: int = 60) -> str:
    """What broke, the least that breaks it, what was decided before, and how to see it again."""
    small = shrink(failure)
    told = [f"  {fault.at_s:6.2f} s  {fault.kind}" for fault in small.scenario.faults]
    return "\n".join(
        [
            f"seed {failure.scenario.seed} breaks {failure.text}",
            f"again: python -m holdfast.lab.simulator {failure.scenario.seed}{_family(failure)}",
            f"shrunk to {len(small.scenario.faults)} faults, {len(small.scenario.jobs)} jobs, "
            f"{small.scenario.nodes} nodes; there: {small.text}",
            *told,
            "its story, to the end:",
            *small.story[-lines:],
        ]
    )


def _family(failure: Failure) -> str:
    family = failure.scenario.family
    return "" if family == "mixed" else f" --family {family}"


def first_failure(seeds: range, *, family: str = "mixed") -> Failure | None:
    """The first failure among these seeds, here and now."""
    return next(filter(None, map(run, map(FAMILIES[family], seeds))), None)


def live_seed(family: str, seed: int) -> Life:
    return live(FAMILIES[family](seed))


def run_many(seeds: range, *, family: str = "mixed", processes: int = 2) -> list[Life]:
    """What each seed came to, in the order of seeds, on several processors."""
    chunk = max(1, min(50, len(seeds) // (2 * processes)))
    with get_context("spawn").Pool(processes) as pool:
        return pool.map(partial(live_seed, family), seeds, chunksize=chunk)
