"""What turns between two states, each told once."""

from made_jobs import made_job
from msgspec.structs import replace

from holdfast.driver.core.events import Plan
from holdfast.driver.core.state.model import Incident, Phase, State
from holdfast.driver.core.state.node import Node, Quarantined
from holdfast.driver.noted import Turned, turned
from holdfast.protocol.faults import Blame, Kind
from holdfast.protocol.messages import Task

OPEN = Incident(
    id=3,
    opened=7,
    kind=Kind.NODE_LOST,
    blame=Blame.INFRASTRUCTURE,
    found_s=1.0,
    summary="node-4 is lost",
    jobs=("speech",),
)
OVER = replace(OPEN, closed_s=2.0, outcome="back at step 207")
NOTHING, FOUND, ENDED = State(), State(incidents={3: OPEN}), State(incidents={3: OVER})


def between(before: State, after: State, *nodes: str) -> list[tuple[str, str, str]]:
    found = turned(before, after, jobs=(), nodes=nodes, why="")
    return [(each.before, each.now, each.why) for each in found]


def test_a_job_turns_with_its_own_reason_or_else_that_of_the_entry() -> None:
    task = Task(command=("x",), workdir=".")
    job = made_job("speech", Plan(task=task, nodes=1, ranks_per_node=1))
    failed = replace(job, phase=Phase.FAILED, why="it ended with exit code 1")
    for after, now, why in (
        (failed, "Failed", "it ended with exit code 1"),
        (replace(failed, why=""), "Failed", "of the entry"),
        (None, "Deleted", "of the entry"),
    ):
        states = State(jobs={"speech": job}), State(jobs={"speech": after} if after else {})
        (told,) = turned(*states, jobs=("speech", "speech"), nodes=(), why="of the entry")
        assert (told.before, told.now, told.why) == (job.phase.value, now, why)


def test_an_incident_is_found_once_and_over_once() -> None:
    assert between(NOTHING, FOUND) == [("", "found", "node-4 is lost")]
    assert between(FOUND, ENDED) == [("found", "over", "back at step 207")]
    changed = State(incidents={3: replace(OPEN, faults=2)})
    assert between(FOUND, changed) == []
    assert between(ENDED, State(incidents={3: replace(OVER, faults=2)})) == []


def test_one_that_is_found_and_over_at_once_is_both() -> None:
    assert [each[1] for each in between(NOTHING, ENDED)] == ["found", "over"]


def test_one_that_is_forgotten_is_not_told_of() -> None:
    assert between(ENDED, State(incidents={})) == []


def test_a_node_is_evicted_and_back_with_the_reason() -> None:
    used, out = Node(name="n"), Node(name="n", trust=Quarantined(why="loud fan"))
    before, after = State(nodes={"n": used}), State(nodes={"n": out})
    assert between(before, after, "n") == [("", "evicted", "loud fan")]
    assert between(after, before, "n") == [("evicted", "back", "loud fan")]
    assert between(after, after, "n", "n") == []
    assert between(NOTHING, NOTHING, "nobody") == []


def test_whose_it_is_stays_with_it() -> None:
    (told,) = turned(NOTHING, FOUND, jobs=(), nodes=(), why="")
    assert told == Turned(
        what="incident", name="3", now="found", why="node-4 is lost", jobs=("speech",)
    )
