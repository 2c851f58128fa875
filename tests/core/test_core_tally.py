"""What nodes told of their ranks: the sums agree with it, also of what was written earlier."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.driver.core.attempt import tally
from holdfast.driver.core.attempt.quiet import is_ending, is_quiet, quiet_of
from holdfast.driver.core.state.model import Job, State, Tally
from holdfast.driver.core.state.node import Node
from holdfast.driver.formats.encode import decode, encode
from holdfast.driver.formats.older_tally import of_today
from holdfast.lab.simulator import simulate
from holdfast.lab.simulator.effects import world_of
from holdfast.lab.simulator.scenario import draw

SEEDS = range(16)


def lived(seed: int) -> list[State]:
    """The state after each entry of a simulated life, but where a job saves before it ends: no
    earlier Holdfast has written that.
    """
    world, seen = world_of(draw(seed)), []
    commit = world.driver._commit

    def committed(event: Any, decision: Any) -> None:
        commit(event, decision)
        if not any(job.ends for job in world.driver.state.jobs.values()):
            seen.append(world.driver.state)

    world.driver._commit = committed  # type: ignore[method-assign]
    simulate._play(world)
    simulate._converge(world)
    return seen


def as_before(state: State) -> tuple[State, dict[str, list[str]]]:
    """As it was written when each job kept what its nodes told, and on which its ranks ran."""
    jobs = {name: _kept_whole(state, job) for name, job in state.jobs.items()}
    nodes = {name: _untold(node) for name, node in state.nodes.items()}
    running = {
        name: [node for node in job.nodes if not job.finished and _ran(state, job, node)]
        for name, job in state.jobs.items()
    }
    return replace(state, jobs=jobs, nodes=nodes), running


def _untold(node: Node) -> Node:
    return (
        replace(node, holding=replace(node.held, ran=0, exited=0, exits=())) if node.held else node
    )


def _kept_whole(state: State, job: Job) -> Job:
    exits = tally.exits_of(state.nodes, job)
    counts = Tally(quiet=job.tally.quiet, ending=job.tally.ending)
    return replace(job, vacant=0, tally=counts, exits=exits)


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
            own = [state.nodes[name] for name in job.members]
            assert job.tally.quiet == sum(is_quiet(node, job) for node in own)
            assert job.tally.ending == sum(map(is_ending, own))
            if job.seated and not job.vacant and not job.finished:
                exits = tally.exits_of(state.nodes, job)
                assert replace(job.tally, running=0, quiet=0) == tally.with_ends(Tally(), exits)
                assert job.tally.running == sum(_ran(state, job, name) for name in job.nodes)


def test_what_an_earlier_holdfast_wrote_is_known_as_it_was() -> None:
    ended = 0
    for seed in SEEDS:
        for state in lived(seed):
            read = of_today(*as_before(state))
            for name, job in state.jobs.items():
                if not (job.seated and job.vacant):
                    ended += job.tally.ended and not job.finished
                    assert asked(read, read.jobs[name]) == asked(state, job)
    assert ended


def test_on_which_nodes_ranks_ran_is_read_of_the_job_that_had_it() -> None:
    ran = 0
    for state in lived(SEEDS[0]):
        before, running = as_before(state)
        plain = msgspec.msgpack.decode(encode(before))[1]
        for name, nodes in running.items():
            plain["jobs"][name]["running"] = nodes
        read = decode(msgspec.msgpack.encode((4, plain)))
        for name, job in state.jobs.items():
            if not (job.seated and job.vacant):
                ran += len(running[name])
                assert asked(read, read.jobs[name])["ran"] == asked(state, job)["ran"]
    assert ran


def as_version_4(state: State) -> bytes:
    """As it was written when each job kept what its nodes told when they were quiet."""
    plain = msgspec.msgpack.decode(encode(state))[1]
    for name, job in plain.get("jobs", {}).items():
        quiet = {each: held for each, held in _holdings(plain) if held.get("job") == name}
        job["quiet"] = {
            each: {key: value for key, value in told.items() if key != "epoch"}
            for each, held in quiet.items()
            if (told := held.pop("quiet", None)) is not None
            and told.get("epoch", 0) == job.get("epoch", 0)
        }
        job["ending"] = [each for each, held in quiet.items() if held.pop("ending", False)]
        job["tally"] = {
            key: value
            for key, value in job.get("tally", {}).items()
            if key not in ("quiet", "ending")
        }
    return msgspec.msgpack.encode((4, plain))


def _holdings(plain: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, node.get("holding", {})) for name, node in plain.get("nodes", {}).items()]


def test_who_was_quiet_for_an_earlier_holdfast_is() -> None:
    quiet = ending = 0
    for seed in SEEDS:
        for state in lived(seed):
            read = decode(as_version_4(state))
            for name, job in state.jobs.items():
                assert quiet_of(read.nodes, read.jobs[name]) == quiet_of(state.nodes, job)
                if not job.finished:
                    assert read.jobs[name].tally == job.tally
                    quiet, ending = quiet + job.tally.quiet, ending + job.tally.ending
    assert quiet
    assert ending
