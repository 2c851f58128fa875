"""Entries that are old, and of nothing that is there, go; on both databases."""

import pytest
from made_jobs import made_job

from holdfast.driver.adapters.sql import pruning
from holdfast.driver.adapters.sql.journal import SqlJournal
from holdfast.driver.core.events import Plan, Ticked
from holdfast.driver.core.state.model import Incident, State
from holdfast.driver.journal.pruning import Pruner
from holdfast.driver.ports import Claim, Entry, Key, TakenOver
from holdfast.protocol.faults import Blame, Kind
from holdfast.protocol.messages import Task

KEEP, WRITTEN = 10, 40
PLAN = Plan(task=Task(command=("x",), workdir="."), nodes=1, ranks_per_node=1)
STATE = State(
    jobs={"here": made_job("here", PLAN)},
    incidents={
        7: Incident(
            id=7, opened=1, kind=Kind.NODE_LOST, blame=Blame.UNKNOWN, found_s=0.0, summary="lost"
        )
    },
)
OF_JOB, OF_INCIDENT, OF_BOTH_JOBS = 4, 5, 6


def entry(sequence: int) -> Entry:
    jobs = {OF_JOB: ("here",), OF_BOTH_JOBS: ("gone", "here")}.get(sequence, ("gone",))
    return Entry(
        sequence=sequence,
        term=1,
        now=float(sequence),
        at="2026-11-21T00:00:00Z",
        policy=1,
        event=Ticked(),
        effects=(),
        why=f"reason {sequence}",
        jobs=jobs if sequence % 2 or sequence in (OF_JOB, OF_BOTH_JOBS) else (),
        nodes=("n",),
        incident=7 if sequence == OF_INCIDENT else None,
    )


@pytest.fixture
async def written(journal: SqlJournal, monkeypatch: pytest.MonkeyPatch) -> SqlJournal:
    """With more than one transaction looks at; each entry was asked for with a key."""
    monkeypatch.setattr(pruning, "AT_ONCE", 8)
    for sequence in range(1, WRITTEN + 1):
        claims = [Claim(Key(f"k{sequence}", b""), sequence)]
        await journal.commit([entry(sequence)], b"state", claims=claims)
    return journal


async def test_the_newest_stay_and_those_of_what_is_there(written: SqlJournal) -> None:
    gone = await Pruner(written, lambda: STATE, keep=KEEP).pass_once(between_s=0)
    kept = [OF_JOB, OF_INCIDENT, OF_BOTH_JOBS, *range(WRITTEN - KEEP + 1, WRITTEN + 1)]
    assert [each.sequence for each in written.entries()] == kept
    assert gone == WRITTEN - len(kept)
    assert written.entries(job="gone", limit=1)[0].sequence == OF_INCIDENT
    assert [each.sequence for each in written.entries(node="n")] == kept
    known = [number for number in range(1, WRITTEN + 1) if written.claim(f"k{number}")]
    assert known == kept


async def test_what_a_job_leaves_that_was_deleted_goes_with_the_next_pass(
    written: SqlJournal,
) -> None:
    state = STATE
    pruner = Pruner(written, lambda: state, keep=KEEP)
    await pruner.pass_once(between_s=0)
    state = State()
    assert await pruner.pass_once(between_s=0) == 3
    assert await pruner.pass_once(between_s=0) == 0
    await written.commit([entry(WRITTEN + 1)], b"state")  # it writes on behind what is left
    assert written.load()[1] == WRITTEN + 1


async def test_who_does_not_lead_any_more_prunes_nothing(
    written: SqlJournal, opened: list[SqlJournal]
) -> None:
    opened[1].take_over()
    with pytest.raises(TakenOver):
        await Pruner(written, lambda: STATE, keep=KEEP).pass_once(between_s=0)
    assert len(opened[1].entries()) == WRITTEN


async def test_a_journal_with_few_entries_keeps_all(written: SqlJournal) -> None:
    assert await Pruner(written, State, keep=WRITTEN).pass_once(between_s=0) == 0
    assert len(written.entries()) == WRITTEN
