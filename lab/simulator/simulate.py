"""Run a scenario to its end, shrink one that fails, and tell its story.

Called by the tests and by `python -m holdfast.lab.simulator`.
"""

from collections.abc import Iterable
from functools import partial
from multiprocessing import get_context

import msgspec
from msgspec.structs import replace

from holdfast.driver.core.transitions import IllegalTransition
from holdfast.lab.simulator import people, processes
from holdfast.lab.simulator.around import world_of
from holdfast.lab.simulator.books import Outcome
from holdfast.lab.simulator.broken import Broken
from holdfast.lab.simulator.closing import close
from holdfast.lab.simulator.faults.table import inject, repair_all
from holdfast.lab.simulator.rules.ends import unfinished, verdict
from holdfast.lab.simulator.scenario import FAULTS_UNTIL_S, Scenario, draw
from holdfast.lab.simulator.world import World

QUIET_LIMIT_S = 8_000.0
"""Virtual seconds within which everything converges once nothing goes wrong any more: several
times the longest wait of the policy (600 s) plus the training itself."""
ATTEND_S = 30.0
"""How often people look after the cluster then."""


class Failure(msgspec.Struct, frozen=True):
    """A scenario that broke a rule."""

    scenario: Scenario
    rule: str
    text: str
    story: tuple[str, ...]


def end_of(scenario: Scenario) -> tuple[Outcome, Failure | None]:
    """Simulate: what it came to, and the rule that it broke, if any."""
    world = world_of(scenario)
    try:
        _play(world)
        _converge(world)
        verdict(world)
    except (Broken, IllegalTransition, AssertionError, KeyError, RecursionError) as error:
        rule = error.rule if isinstance(error, Broken) else type(error).__name__
        return close(world, rule), Failure(scenario, rule, str(error), _story(world))
    return close(world), None


def run(scenario: Scenario) -> Failure | None:
    """Simulate; None if every rule held and all converged."""
    return end_of(scenario)[1]


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
    _until(world, FAULTS_UNTIL_S)


def _converge(world: World) -> None:
    repair_all(world)
    while left := unfinished(world):
        if world.agenda.now > QUIET_LIMIT_S:
            raise Broken("everything-converges", left)
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
            f"again: python -m holdfast.lab.simulator {failure.scenario.seed}",
            f"shrunk to {len(small.scenario.faults)} faults, {len(small.scenario.jobs)} jobs, "
            f"{small.scenario.nodes} nodes; there: {small.text}",
            *told,
            "its story, to the end:",
            *small.story[-lines:],
        ]
    )


def run_seed(seed: int) -> Failure | None:
    return run(draw(seed))


def first_failure(seeds: range) -> Failure | None:
    """The first failure among `seeds`, here and now."""
    return next(filter(None, map(run_seed, seeds)), None)


def _end_of_seed(seed: int) -> tuple[Outcome, Failure | None]:
    return end_of(draw(seed))


def run_many(seeds: range, *, processes: int = 2) -> tuple[list[Outcome], list[Failure]]:
    """What each seed came to, and every failure, in the order of seeds, on several processors."""
    with get_context("spawn").Pool(processes) as pool:
        ends = pool.map(_end_of_seed, seeds, chunksize=50)
    return [outcome for outcome, _ in ends], [failure for _, failure in ends if failure is not None]
