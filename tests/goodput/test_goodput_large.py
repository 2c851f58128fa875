"""A long journal is read once, and of it only what says what jobs do."""

import os
import time
from pathlib import Path

import pytest

from holdfast.driver.adapters.sql.sqlite import open_sqlite
from holdfast.driver.core.events import NodeQuiet
from holdfast.driver.core.state.model import State
from holdfast.driver.formats.encode import encode
from holdfast.driver.noted import Doing, What
from holdfast.driver.people.goodput.ledger import Ledger
from holdfast.driver.ports import Entry

ENTRIES = int(os.environ.get("HOLDFAST_TEST_ENTRIES", "20000"))
"""With 1,000,000, and `-s` to see the times, it takes two minutes to write them."""
PAGE = 5_000
TURNS_EACH = 100
JOBS = 50
LIFE = (What.STOP, What.RENDEZVOUS, What.FORK, What.BEGIN, What.TRAIN)


def entry(number: int, term: int) -> Entry:
    """As most are where a job has thousands of nodes; of some a job does something else."""
    job = f"job-{number // 1_000 % JOBS}"
    turns = number % TURNS_EACH == 0
    what = LIFE[number // TURNS_EACH % len(LIFE)]
    return Entry(
        sequence=number,
        term=term,
        now=float(number),
        at="2026-11-26T22:00:00.000000+00:00",
        policy=1,
        event=NodeQuiet(job=job, epoch=number, node=f"node-{number % 4_000}"),
        effects=(),
        why=f"no earlier rank is left on node-{number % 4_000}",
        jobs=(job,),
        nodes=(f"node-{number % 4_000}",),
        doing={job: Doing(what=what, attempt=number)} if turns else {},
    )


async def test_a_look_at_a_long_journal_and_those_that_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = open_sqlite(tmp_path / "journal.sqlite", reserve_bytes=65_536)
    term = journal.take_over().term
    for done in range(0, ENTRIES, PAGE):
        page = [entry(number, term) for number in range(done + 1, done + PAGE + 1)]
        await journal.commit(page, encode(State(sequence=done + PAGE, term=term)))
    given: list[int] = []
    entries = journal.entries

    def counted(**asked: int | bool) -> list[Entry]:
        found = entries(**asked)  # type: ignore[arg-type]
        given.append(len(found))
        return found

    monkeypatch.setattr(journal, "entries", counted)
    ledger, state = Ledger(), State(sequence=ENTRIES)
    for expected in (ENTRIES // TURNS_EACH, None, None):
        given.clear()
        began_s = time.perf_counter()
        ledger.fleet(journal, state, now=float(ENTRIES), since_s=0.0)
        print(f"{ENTRIES:,} entries, {sum(given):,} read: {time.perf_counter() - began_s:.3f} s")
        assert (sum(given) if given else None) == expected  # None: it was not even asked
    journal.close()
