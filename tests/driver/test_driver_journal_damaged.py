"""A journal whose state cannot be read is a sentence with what to do, wherever it is opened."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from driver_loops import POLICY, InMemory, LoopClock
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, update

from holdfast.cli.errors import Stopped
from holdfast.cli.offline import Recorded
from holdfast.driver.adapters.sql import tables
from holdfast.driver.adapters.sql.sqlite import open_sqlite
from holdfast.driver.core.events import Ticked
from holdfast.driver.core.state.model import Incident, State
from holdfast.driver.formats.encode import (
    VERSION,
    LaterState,
    UnreadableState,
    decode,
    encode,
    encode_change,
    fold,
)
from holdfast.driver.loop import Loop
from holdfast.driver.ports import Entry, PermanentError
from holdfast.protocol.faults import Blame, Kind

BEFORE = State(sequence=1, term=1)
AFTER = State(sequence=2, term=1)
LATER = msgspec.msgpack.encode((VERSION + 1, {"sequence": 7}))
CHANGE = encode_change(BEFORE, AFTER)
DAMAGED = "its state is damaged .* Put a journal back from a backup, or start with another --state"


@given(whole=st.binary(), change=st.binary(), cut=st.integers(0, len(CHANGE) - 1))
def test_whatever_bytes_are_there_they_are_a_state_or_a_sentence(
    whole: bytes, change: bytes, cut: int
) -> None:
    for state, changes in (
        (whole, []),
        (encode(BEFORE), [change]),
        (encode(BEFORE), [CHANGE[:cut]]),
        (encode(BEFORE), [b"\xc0", CHANGE]),
        (whole, [CHANGE]),
    ):
        with suppress(UnreadableState):
            decode(fold(state, changes))


def test_a_state_of_a_later_holdfast_keeps_its_sentence_under_changes() -> None:
    with pytest.raises(LaterState, match="written by a later one"):
        fold(LATER, [CHANGE])


def test_a_word_of_a_later_holdfast_is_no_damage() -> None:
    found = Incident(
        id=1, opened=1, kind=Kind.UNSEEN, blame=Blame.UNKNOWN, found_s=0.0, summary="", jobs=("a",)
    )
    version, state = msgspec.msgpack.decode(encode(State(incidents={1: found})))
    later = msgspec.msgpack.encode((version, _renamed(state, Kind.UNSEEN, "of-tomorrow")))
    with pytest.raises(LaterState, match=r"'of-tomorrow'.* written by a later one"):
        decode(later)


def _renamed(value: Any, word: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(each, word, new) for key, each in value.items()}
    return new if value == word else value


async def _written(path: Path) -> None:
    journal = open_sqlite(path)
    term = journal.take_over().term
    for sequence, state, change in ((1, encode(BEFORE), False), (2, CHANGE, True)):
        entry = Entry(
            sequence=sequence,
            term=term,
            now=0.0,
            at="",
            policy=1,
            event=Ticked(),
            effects=(),
            why="",
        )
        await journal.commit([entry], state, change=change)
    journal.close()


@pytest.mark.parametrize(
    ("table", "body", "sentence"),
    [
        pytest.param(tables.changes, CHANGE[:-3], DAMAGED, id="a change is cut off"),
        pytest.param(tables.state, b"\x00\xff", DAMAGED, id="the state is something else"),
        pytest.param(tables.state, LATER, "written by a later one", id="the state is a later one"),
    ],
)
async def test_driver_and_reader_of_a_damaged_journal_say_so(
    tmp_path: Path, table: tables.Table, body: bytes, sentence: str
) -> None:
    path = tmp_path / "journal.sqlite"
    await _written(path)
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.execute(update(table).values(body=body))
    engine.dispose()
    with pytest.raises(Stopped, match=sentence):
        Recorded(tmp_path)
    journal = open_sqlite(path)
    with pytest.raises(PermanentError, match=sentence):
        journal.take_over()
    journal.close()


@pytest.mark.looptime
async def test_a_driver_over_a_state_that_is_none_says_so() -> None:
    journal = InMemory()
    journal.state = encode(BEFORE)[:-2]
    with pytest.raises(PermanentError, match=DAMAGED):
        Loop(journal, clock=LoopClock(), policy=POLICY)
