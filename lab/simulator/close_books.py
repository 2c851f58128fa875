"""Adds up the books of one simulated life, beside what the world is at its end."""

from holdfast.lab.simulator.books import JobOutcome, Outcome
from holdfast.lab.simulator.training import Run
from holdfast.lab.simulator.waits import Measured
from holdfast.lab.simulator.world import World


def close(world: World, rule: str = "") -> Outcome:
    """What came of every job, and of the nodes. `rule`: the one that broke, if any."""
    books = world.books
    books.close(world.now)
    harmless = [n for n in books.evicted if n not in world.guilty and n not in world.asked]
    return Outcome(
        seed=world.scenario.seed,
        jobs=tuple(_job(world, name) for name in sorted(world.jobs)),
        evicted=len(books.evicted),
        innocent=len(harmless),
        rule=rule,
    )


def measured(world: World) -> Measured:
    """How near it came to its bounds."""
    begun, waits = world.books.submitted_s, world.waits
    late_s = [at_s - begun[job] for job, at_s in waits.running_s.items() if job in begun]
    return Measured(max(late_s, default=0.0), waits.longest_s, waits.dearest)


def _job(world: World, name: str) -> JobOutcome:
    job, books, now = world.driver.state.jobs.get(name), world.books, world.now
    since_s = books.submitted_s.get(name, now)
    runs = [run for (owner, _), run in world.runs.items() if owner == name]
    trained_s = sum(_trained_s(run, now) for run in runs)
    alive_s = books.finished_s.get(name, now) - since_s
    gone = "deleted" if name in world.deleted else "refused"
    return JobOutcome(
        job=name,
        ended=job.phase.value if job is not None else gone,
        attempts=len(world.lines[name]),
        trained=world.best[name],
        repeated=books.repeated.get(name, 0),
        unavoidable=books.unavoidable.get(name, 0),
        idle_s=round(max(0.0, alive_s - trained_s), 3),
        held_s=round(books.held_s.get(name, 0.0), 3),
    )


def _trained_s(run: Run, now: float) -> float:
    if run.since_s is None:
        return 0.0
    return (run.stood_s if run.stood_s is not None else now) - run.since_s
