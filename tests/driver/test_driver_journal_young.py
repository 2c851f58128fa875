"""A journal in its first minutes, one that was lost, and a state that a later Holdfast wrote."""

import shutil
from pathlib import Path

import msgspec
import pytest
from driver_loops import POLICY, InMemory, LoopClock

from holdfast.driver.adapters.sql.sqlite import open_sqlite
from holdfast.driver.core.events import DriverStarted
from holdfast.driver.core.state.model import State
from holdfast.driver.formats.encode import VERSION, LaterState, decode, encode
from holdfast.driver.journal.opening import open_journal
from holdfast.driver.loop import Loop
from holdfast.driver.ports import Entry, PermanentError
from holdfast.driver.settings import Settings

LATER = msgspec.msgpack.encode((VERSION + 1, {"sequence": 7}))


def first(term: int) -> Entry:
    event = DriverStarted(term=term)
    return Entry(
        sequence=1, term=term, now=0.0, at="", policy=1, event=event, effects=(), why="it began"
    )


async def test_what_was_committed_first_is_in_the_file_itself(tmp_path: Path) -> None:
    journal = open_sqlite(tmp_path / "journal.sqlite", reserve_bytes=1 << 16)
    term = journal.take_over().term
    await journal.commit([first(term)], encode(State(sequence=1, term=term)))
    kept = tmp_path / "kept.sqlite"
    shutil.copy(tmp_path / "journal.sqlite", kept)  # and not what lies beside it
    journal.close()
    again = open_sqlite(kept, reserve_bytes=1 << 16)
    assert again.take_over().term == term + 1
    assert [each.why for each in again.entries()] == ["it began"]
    again.close()


def test_so_are_its_tables_before_anything_was_written(tmp_path: Path) -> None:
    journal = open_sqlite(tmp_path / "journal.sqlite", reserve_bytes=1 << 16)
    assert not (tmp_path / "journal.sqlite-wal").stat().st_size
    journal.close()


def test_an_empty_journal_beside_jobs_that_ran_is_refused(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, _cli_parse_args=[])
    open_journal(settings).close()  # a new one is well
    (settings.paths.jobs / "speech").mkdir(parents=True)
    with pytest.raises(PermanentError, match=r"it is empty, and .* has what speech wrote. Put the"):
        open_journal(settings)


async def test_a_journal_with_entries_beside_its_jobs_is_well(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, _cli_parse_args=[])
    journal = open_journal(settings)
    term = journal.take_over().term
    await journal.commit([first(term)], encode(State(sequence=1, term=term)))
    journal.close()
    (settings.paths.jobs / "speech").mkdir(parents=True)
    open_journal(settings).close()


def test_a_state_has_a_version_and_one_without_is_read() -> None:
    state = State(sequence=7, term=2)
    assert decode(encode(state)) == state
    assert decode(msgspec.msgpack.encode(state)) == state


@pytest.mark.looptime
async def test_a_state_of_a_later_holdfast_is_refused_in_a_sentence() -> None:
    known = f"its state has version {VERSION + 1}, and this Holdfast knows {VERSION}"
    with pytest.raises(LaterState, match=known):
        decode(LATER)
    journal = InMemory()
    journal.state = LATER
    with pytest.raises(PermanentError, match="written by a later one"):
        Loop(journal, clock=LoopClock(), policy=POLICY)
