"""What an entry decided of others is told of those: that another job waits is no answer here."""

from holdfast.driver.core import events as e
from holdfast.driver.people.story import about, lines_of
from holdfast.driver.ports import Entry

WHY = "a person wants n0 out: loud; n0 is evicted; big waits: it needs 9 nodes, n0: quarantined"


def _entry(event: e.AnyEvent, why: str, *jobs: str) -> Entry:
    return Entry(
        sequence=1, term=1, now=1.0, at="", policy=1, event=event, effects=(), why=why,
        jobs=jobs, nodes=("n0",), incident=None,
    )  # fmt: skip


def test_that_another_job_waits_is_told_to_that_job_alone() -> None:
    assert about({"n0"}, WHY, ("big",)) == "a person wants n0 out: loud; n0 is evicted"
    assert about({"big"}, WHY, ("big",)) == WHY
    told = "my waits: a; my waits: b"
    assert about({"n0"}, told, ()) == told, "no job of the entry has that name"


def test_a_story_has_what_was_decided_of_its_own_subject() -> None:
    entry = _entry(e.NodeEvictRequested(node="n0", reason="loud"), WHY, "mine", "big")
    (line,) = lines_of([entry], subjects={"mine"})
    assert "big" not in line.text
    (line,) = lines_of([entry], subjects={"big"})
    assert "big waits: it needs 9 nodes" in line.text


def test_what_a_job_waits_for_is_one_reason(life) -> None:
    """So that it is told, or left out, as a whole."""
    for name in ("n0", "n1"):
        life.node(name)
    life.do(e.NodeMaintainRequested(node="n0", reason="x"))
    life.submit("big")
    assert life.job.waiting.count("; ") == 1
    (*_, last) = life.whys[-1].split("; ")
    assert last == "big waits: it needs 2 nodes, and 1 is free, n0: a person wants to work on it: x"
    assert life.job.why == f"big waits: {life.job.waiting}"


def test_a_node_that_is_back_is_told_of_as_one_that_was_gone(training) -> None:
    life = training()
    gone, back = e.NodeVanished(node="n1", why="no answer"), e.NodeAppeared(node="n1")
    entries = [_entry(event, life.do(event).why, "job") for event in (gone, back)]
    told = [line.text for line in lines_of(entries, subjects={"job"})]
    assert told[-1] == "n1 is there again"
    assert not lines_of([_entry(back, "n1 is there", "job")]), "that of a new one is no news"
