"""Jobs of a state that an earlier Holdfast wrote, made those of today."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.driver.core.attempt import known_points
from holdfast.driver.core.state.layout import Layout
from holdfast.driver.core.state.model import Attempt, Job
from holdfast.driver.core.state.restore_point import RestorePoint, Tainted, Where, Whole
from holdfast.driver.formats.encode import decode, encode, fold
from holdfast.protocol.topology import Topology

PLAN = {
    "task": {"command": ["train"], "workdir": "."},
    "topology": {"tp": 2},
    "nodes": 2,
    "ranks_per_node": 1,
}
SEAT = {"rank": 0, "local_rank": 0, "node": "n0", "address": "127.0.0.1"}
JOB = {
    "name": "job",
    "plan": PLAN,
    "phase": "Running",
    "number": 3,
    "submitted_s": 4.0,
    "since_s": 9.0,
    "places": ["n0", "n1"],
    "epoch": 5,
    "attempt": 2,
    "seats": [SEAT, {**SEAT, "rank": 1, "node": "n1"}],
    "restore": {"source": "store", "step": 20, "epoch": 3},
    "history": [{"epoch": 3, "end": 20}, {"epoch": 5}],
    "acknowledged": [{"step": 10, "epoch": 3}, {"step": 20, "epoch": 3}],
    "stored_s": 7.0,
    "spoiled": [{"source": "memory", "step": 18, "epoch": 3}],
}


def written(version: int, job: dict[str, Any], *changes: Any) -> Job:
    """As today's driver reads it."""
    state = {"sequence": 1, "jobs": {"job": job}}
    whole = msgspec.msgpack.encode((version, state) if version else state)
    patches = [
        msgspec.msgpack.encode((1, [1, {"jobs": [2, [["job", each]], []]}])) for each in changes
    ]
    read = decode(fold(whole, patches))
    assert decode(encode(read)) == read
    return read.jobs["job"]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_what_it_knew_of_a_job_that_runs_is_known(version: int) -> None:
    job = written(version, JOB)
    tp = Topology(tp=2)
    places = ("n0", "n1")
    assert job.layout == Layout(number=1, topology=tp, nodes=2, ranks_per_node=1, places=places)
    assert (job.version.number, job.version.at_s, job.plan.nodes) == (1, 4.0, 2)
    assert job.history == (Attempt(epoch=3, end=20), Attempt(epoch=5, number=2, layout=1))
    assert job.restore == RestorePoint(step=20, epoch=3, where=Where.STORE)
    assert [(each.step, type(each.status), each.written_s) for each in job.points] == [
        (10, Whole, None),
        (18, Tainted, None),
        (20, Whole, 7.0),
    ]
    assert [each.step for each in known_points.in_store(job)] == [10, 20]


def test_one_that_had_no_nodes_yet_has_its_size() -> None:
    waits = {key: JOB[key] for key in ("name", "plan", "number", "submitted_s", "since_s")}
    job = written(1, {**waits, "phase": "Pending"})
    assert (job.places, job.world_size, job.layout.number) == ((), 2, 0)
    assert (job.history, job.points, job.restore) == ((), (), None)


def test_changes_that_it_wrote_are_put_on_its_own_form() -> None:
    more = [0, [{"step": 30, "epoch": 5}]]
    job = written(1, JOB, [1, {"acknowledged": more, "stored_s": [0, 8.0]}])
    assert [(each.step, each.written_s) for each in known_points.in_store(job)] == [(30, 8.0)]


@given(st.sets(st.tuples(st.sampled_from(Where), st.integers(1, 5))))
def test_what_ranks_died_of_is_still_not_used(spoiled: set[tuple[Where, int]]) -> None:
    told = [{"source": where.value, "step": step, "epoch": 3} for where, step in spoiled]
    job = written(1, {**JOB, "spoiled": told})
    tainted = [each for each in job.points if isinstance(each.status, Tainted)]
    assert {(each.where, each.step) for each in tainted} == spoiled
    assert len({(each.where, each.saved) for each in job.points}) == len(job.points)
