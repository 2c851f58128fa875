"""What nodes told of their ranks: the sums agree with it, also of what was written earlier."""

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.driver.core.attempt import tally
from holdfast.driver.core.codec.encode import _of_today
from holdfast.driver.core.state.model import Job, State, Tally
from holdfast.driver.core.state.node import Node
from holdfast.lab.simulator import simulate
from holdfast.lab.simulator.effects import world_of
from holdfast.lab.simulator.scenario import draw

SEEDS = range(16)


def lived(seed: int) -> list[State]:
    """The state after each entry of a simulated life."""
    world, seen = world_of(draw(seed)), []
    commit = world.driver._commit

    def committed(event: Any, decision: Any) -> None:
        commit(event, decision)
        seen.append(world.driver.state)

    world.driver._commit = committed  # type: ignore[method-assign]
    simulate._play(world)
    simulate._converge(world)
    return seen


def as_before(state: State) -> State:
    """As it was written when each job kept what its nodes told."""
    jobs = {name: _kept_whole(state, job) for name, job in state.jobs.items()}
    nodes = {name: _untold(node) for name, node in state.nodes.items()}
    return replace(state, jobs=jobs, nodes=nodes)


def _untold(node: Node) -> Node:
    return (
        replace(node, holding=replace(node.held, ran=0, exited=0, exits=())) if node.held else node
    )


def _kept_whole(state: State, job: Job) -> Job:
    running = tuple(name for name in job.nodes if not job.finished and _ran(state, job, name))
    exits = tally.exits_of(state.nodes, job)
    return replace(job, vacant=0, tally=Tally(), exits=exits, running=running)


def _ran(state: State, job: Job, node: str) -> bool:
    return tally.runs_on(state.nodes[node], job)


def asked(state: State, job: Job) -> dict[str, Any]:
    """All that others ask of it, but which entry told of an end."""
    exits = [replace(each, at=0) for each in tally.exits_of(state.nodes, job)]
    ran = {name: _ran(state, job, name) for name in job.nodes}
    sums = None if job.finished else replace(job.tally, running=0)
    return {"vacant": job.vacant, "exits": exits, "ran": ran, "sums": sums}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_sums_are_those_of_what_the_nodes_told(seed: int) -> None:
    """But for a node that has told of ends, and left since: its job opens an epoch at once then."""
    for state in lived(seed):
        for job in state.jobs.values():
            assert job.vacant == job.places.count("")
            if job.seated and not job.vacant and not job.finished:
                exits = tally.exits_of(state.nodes, job)
                assert replace(job.tally, running=0) == tally.of(exits)
                assert job.tally.running == sum(_ran(state, job, name) for name in job.nodes)


def test_what_an_earlier_holdfast_wrote_is_known_as_it_was() -> None:
    ended = 0
    for seed in SEEDS:
        for state in lived(seed):
            read = _of_today(as_before(state))
            for name, job in state.jobs.items():
                if not (job.seated and job.vacant):
                    ended += job.tally.ended and not job.finished
                    assert asked(read, read.jobs[name]) == asked(state, job)
    assert ended
