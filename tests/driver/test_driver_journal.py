"""The journal's contract, for each of its adapters, and what SQLite alone has to prove."""

import asyncio
import errno
import sqlite3
import subprocess
import sys
from pathlib import Path
from secrets import token_hex
from threading import Barrier

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from namespaces import own_mounts
from sqlalchemy import create_engine
from waiting import DEADLINE_S

from holdfast.driver.adapters import migrations
from holdfast.driver.adapters.sql import tables
from holdfast.driver.adapters.sql.journal import SqlJournal
from holdfast.driver.adapters.sql.sqlite import open_sqlite, read_only
from holdfast.driver.core.effects import Allocate
from holdfast.driver.core.events import NodeAppeared, Ticked
from holdfast.driver.ports import Claim, Entry, Kept, Key, Pair, PermanentError, Taken, TakenOver


def entry(sequence: int, *, term: int = 1, now: float | None = None, **fields: object) -> Entry:
    return Entry(
        sequence=sequence,
        term=term,
        now=sequence * 1.5 if now is None else now,
        at="2026-11-21T00:00:00Z",
        policy=1,
        event=fields.pop("event", Ticked()),  # type: ignore[arg-type]
        effects=fields.pop("effects", ()),  # type: ignore[arg-type]
        why=f"reason {sequence}",
        **fields,  # type: ignore[arg-type]
    )


# ---------------------------------------------------------------- the contract of the port


def test_a_new_journal_has_nothing(journal: SqlJournal) -> None:
    assert journal.load() == (None, 0, 0.0)
    assert journal.entries() == []
    assert journal.claim("k") is None
    assert journal.shortage() is None


async def test_what_was_committed_is_given_back_whole(journal: SqlJournal) -> None:
    event = NodeAppeared(node="node-1", rack="rack-0", cause=None)
    committed = entry(1, event=event, effects=(Allocate(job="a", node="node-1", cause=1),))
    await journal.commit([committed], b"state 1")
    assert journal.load() == (b"state 1", 1, 1.5)
    assert journal.entries() == [committed]


async def test_entries_that_restate_their_event_are_left_out_where_a_story_is_told(
    journal: SqlJournal,
) -> None:
    told, mark = entry(1, jobs=("a",)), NodeAppeared(node='"restates":true')
    named, mute = entry(2, event=mark, jobs=("a",)), entry(3, jobs=("a",), restates=True)
    await journal.commit([told, named, mute], b"state")
    assert journal.entries(job="a", telling=True) == [told, named]
    assert journal.entries(job="a") == [told, named, mute]


async def test_entries_are_filtered_in_order_and_in_pages(journal: SqlJournal) -> None:
    await journal.commit(
        [
            entry(1, jobs=("a",), nodes=("n1", "n2")),
            entry(2, jobs=("a", "b"), incident=7),
            entry(3, nodes=("n2",), incident=7),
        ],
        b"s",
    )

    def found(**filters: object) -> list[int]:
        return [each.sequence for each in journal.entries(**filters)]  # type: ignore[arg-type]

    assert found() == [1, 2, 3]
    assert found(after=1, limit=1) == [2]
    assert found(job="a") == [1, 2]
    assert found(job="b") == [2]
    assert found(node="n2") == [1, 3]
    assert found(incident=7) == [2, 3]
    assert found(incident=7, node="n2") == [3]
    assert found(job="none") == []


async def test_a_claim_is_remembered_with_its_entry(journal: SqlJournal) -> None:
    claim = Claim(Key("key-1", b"digest"), 1)
    await journal.commit([entry(1)], b"s", claims=[claim])
    assert journal.claim("key-1") == claim
    assert journal.claim("key-2") is None


async def test_a_claim_that_is_there_already_undoes_the_whole_commit(journal: SqlJournal) -> None:
    await journal.commit([entry(1)], b"one", claims=[Claim(Key("k", b"d"), 1)])
    with pytest.raises(PermanentError):
        await journal.commit([entry(2)], b"two", claims=[Claim(Key("k", b"e"), 2)])
    assert journal.load() == (b"one", 1, 1.5)
    assert len(journal.entries()) == 1


async def test_from_the_moment_the_term_is_taken_the_driver_before_can_write_nothing(
    opened: list[SqlJournal],
) -> None:
    old, new = opened
    old.take_over()
    await old.commit([entry(1, term=1)], b"old")
    old.check_term()
    assert new.take_over() == Taken(term=2, state=b"old", sequence=1, now=1.5)
    for _ in range(2):
        with pytest.raises(TakenOver, match=r"taken over with term 2, so this one, of term 1"):
            await old.commit([entry(2, term=1)], b"stale", claims=[Claim(Key("k", b"d"), 2)])
    with pytest.raises(TakenOver):
        old.check_term()
    await new.commit([entry(2, term=2)], b"new")
    with pytest.raises(TakenOver):
        await old.commit([entry(3, term=1)], b"stale, though it knows the sequence")
    assert new.load() == (b"new", 2, 3.0)
    assert [each.term for each in new.entries()] == [1, 2]
    assert new.claim("k") is None


async def test_drivers_that_start_at_once_get_different_terms(opened: list[SqlJournal]) -> None:
    taken = await asyncio.gather(
        *(asyncio.to_thread(each.take_over) for each in opened * 3), return_exceptions=True
    )
    assert sorted(each.term for each in taken if isinstance(each, Taken)) == [1, 2, 3, 4, 5, 6]


async def test_drivers_that_make_a_ca_at_once_have_the_first_ones(opened: list[SqlJournal]) -> None:
    both_look = Barrier(2)

    def make() -> Pair:
        both_look.wait(DEADLINE_S)  # nobody has kept one yet
        mine = token_hex()
        return Pair(certificate=f"certificate {mine}", key=f"key {mine}")

    first, second = await asyncio.gather(
        *(asyncio.to_thread(each.authority, make) for each in opened)
    )
    assert first == second
    assert opened[0].authority(make) == first, "none is made where there is one"
    assert first.key.removeprefix("key ") == first.certificate.removeprefix("certificate ")
    assert first.key not in repr(first)


async def test_who_took_no_term_can_write_nothing(opened: list[SqlJournal]) -> None:
    with pytest.raises(PermanentError):
        await opened[0].commit([entry(1, term=0)], b"s")
    assert opened[0].load() == (None, 0, 0.0)


def last(rank: int = 0, *, number: int = 1, attempt: int = 1, text: bytes = b"") -> Kept:
    return Kept(job="a", rank=rank, number=number, attempt=attempt, stdout=text, stderr=b"\xff")


async def test_the_last_lines_of_a_rank_are_those_of_its_newest_attempt(
    journal: SqlJournal,
) -> None:
    assert journal.kept("a", 0) is None
    await journal.keep([last(attempt=2, text=b"two"), last(1)], jobs=["a", "b"])
    await journal.keep([last(attempt=1, text=b"late")], jobs=["a", "b"])
    assert journal.kept("a", 0) == last(attempt=2, text=b"two")
    await journal.keep([last(number=7, text=b"a later job")], jobs=["a"])
    assert journal.kept("a", 0) == last(number=7, text=b"a later job")
    await journal.keep([], jobs=["b"])
    assert journal.kept("a", 1) is None, "that job is forgotten"


async def test_a_driver_that_was_replaced_keeps_no_last_lines(opened: list[SqlJournal]) -> None:
    for journal in opened:
        journal.take_over()
    with pytest.raises(TakenOver):
        await opened[0].keep([last()], jobs=["a"])
    assert opened[1].kept("a", 0) is None


async def test_the_same_commit_again_is_done_once(journal: SqlJournal) -> None:
    """As the loop does where the answer to a commit was lost."""
    claims = [Claim(Key("k", b"d"), 2)]
    for _ in range(2):
        await journal.commit([entry(1), entry(2)], b"s", claims=claims)
    assert [each.sequence for each in journal.entries()] == [1, 2]
    with pytest.raises(PermanentError, match="not what this driver wrote"):
        await journal.commit([entry(1), entry(2, jobs=("another",))], b"t")
    await journal.commit([entry(3)], b"u")
    assert journal.load() == (b"u", 3, 4.5)


# ---------------------------------------------------------------- SQLite


async def test_a_reader_sees_a_run_without_its_driver(tmp_path: Path) -> None:
    journal = open_sqlite(tmp_path / "journal.sqlite")
    journal.take_over()
    await journal.commit([entry(1, jobs=("a",))], b"s")
    reader, missing = read_only(tmp_path / "journal.sqlite")
    assert missing == ""
    assert [each.sequence for each in reader.entries(job="a")] == [1]
    with pytest.raises(PermanentError):
        await reader.commit([entry(2)], b"t")
    with pytest.raises(PermanentError):
        reader.take_over()
    reader.close()
    journal.close()


def test_what_is_no_journal_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_bytes(b"not a database, but a letter to a friend" * 100)
    with pytest.raises(PermanentError, match="another --state"):
        open_sqlite(tmp_path / "journal.sqlite")


def test_a_journal_of_a_later_holdfast_is_refused(tmp_path: Path) -> None:
    open_sqlite(tmp_path / "journal.sqlite").close()
    with sqlite3.connect(tmp_path / "journal.sqlite") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(PermanentError, match="another version of Holdfast"):
        open_sqlite(tmp_path / "journal.sqlite")


def test_migrations_make_the_tables_that_the_code_uses() -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        migrations.upgrade(connection)
        context = MigrationContext.configure(connection)
        assert context.get_current_revision() == tables.HEAD_REVISION
        assert compare_metadata(context, tables.metadata) == []
        assert connection.execute(tables.head.select()).one() == (1, 0, 0, 0.0)
        assert connection.execute(tables.state.select()).one() == (1, None)
        assert connection.execute(tables.authority.select()).one() == (1, None, None)
    engine.dispose()


def test_an_older_journal_is_migrated_when_it_is_opened(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'journal.sqlite'}")
    with engine.begin() as connection:
        tables.revision.create(connection)  # alembic's table alone: older than the first revision
    engine.dispose()
    journal = open_sqlite(tmp_path / "journal.sqlite")
    assert journal.load() == (None, 0, 0.0)
    journal.close()


KILLED_AT_EACH_STEP = """
import asyncio, json, os, signal, sys
from pathlib import Path
from sqlalchemy import event
from sqlalchemy.engine import Engine
from holdfast.driver.adapters.sql import sqlite
from holdfast.driver.core.events import Ticked
from holdfast.driver.ports import Claim, Entry, Key

fatal_step = steps = 0

def step(*_):
    global steps
    steps += 1
    if steps == fatal_step:
        os.kill(os.getpid(), signal.SIGKILL)

for hook in ("begin", "before_cursor_execute", "after_cursor_execute", "commit"):
    event.listen(Engine, hook, step)

def entry(n):
    return Entry(sequence=n, term=1, now=float(n), at="", policy=1, event=Ticked(), effects=(),
                 why="", jobs=("a",), nodes=("n",))

async def write(path, acknowledged):
    opened = sqlite.open_sqlite(path)
    opened.take_over()
    for n in (1, 3):
        await opened.commit([entry(n), entry(n + 1)], b"state %d" % (n + 1),
                            claims=[Claim(Key(str(n), b""), n)])
        acknowledged.write_text(str(n + 1))
    opened.close()

status, root = None, Path(sys.argv[1])
while status != 0:
    fatal_step += 1
    folder = root / str(fatal_step)
    folder.mkdir()
    child = os.fork()
    if not child:
        asyncio.run(write(folder / "journal.sqlite", folder / "acknowledged"))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), status
print(fatal_step)
"""


async def test_killed_between_any_two_steps_it_has_all_of_a_commit_or_nothing(
    tmp_path: Path,
) -> None:
    steps = int(_run_python(KILLED_AT_EACH_STEP, str(tmp_path)))
    assert steps > 30, "begin, statements and commit of the tables and of two commits"
    for folder in tmp_path.iterdir():
        journal = open_sqlite(folder / "journal.sqlite")
        state, sequence, now = journal.load()
        acknowledged = folder / "acknowledged"
        assert sequence in (0, 2, 4)
        assert sequence >= (int(acknowledged.read_text()) if acknowledged.exists() else 0)
        assert (state, now) == ((f"state {sequence}".encode() if sequence else None), sequence)
        assert len(journal.entries()) == len(journal.entries(job="a")) == sequence
        assert (journal.claim("3") is not None) == (sequence == 4)
        journal.take_over()
        await journal.commit([entry(sequence + 1)], b"goes on")
        journal.close()


ON_A_FULL_DISK = """
import asyncio, sys
from pathlib import Path
import structlog
from holdfast.driver.adapters.sql.sqlite import open_sqlite
from holdfast.driver.core.events import Ticked
from holdfast.driver.ports import Entry, TemporaryError

structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
folder = Path(sys.argv[1])

def entry(n):
    return Entry(sequence=n, term=1, now=float(n), at="", policy=1, event=Ticked(), effects=(),
                 why="")

async def main():
    journal = open_sqlite(folder / "journal.sqlite", reserve_bytes=2 << 20)
    journal.take_over()
    await journal.commit([entry(1)], b"s")
    print("roomy:", journal.shortage())
    with (folder / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 4096)
        except OSError as error:
            print("filled:", error.errno)
    sequence, full = 2, False
    while not full and sequence < 1000:  # some room is left in SQLite's own files
        await journal.commit([entry(sequence)], b"s" * 4096)
        sequence, full = sequence + 1, journal.shortage() is not None
    print("full:", journal.shortage())
    for _ in range(20):
        await journal.commit([entry(sequence)], b"s" * 4096)
        sequence += 1
    print("recoveries:", len(journal.entries()) == sequence - 1)
    try:
        while sequence < 10_000:
            await journal.commit([entry(sequence)], b"s" * 65536)
            sequence += 1
    except TemporaryError as error:
        print("refused:", error)
    print("nothing half written:", journal.load()[1] == len(journal.entries()) == sequence - 1)
    (folder / "filler").unlink()
    await journal.commit([entry(sequence)], b"s")
    print("roomy:", journal.shortage())
    journal.close()

asyncio.run(main())
"""


def test_a_full_disk_stops_new_work_but_not_recoveries(tmp_path: Path) -> None:
    script = tmp_path / "full.py"
    script.write_text(ON_A_FULL_DISK)
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=8m none {disk} && exec {sys.executable} {script} {disk}"
    done = subprocess.run(
        [*own_mounts(), "sh", "-c", mount], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    said = [line.split(": ", 1) for line in done.stdout.splitlines()]
    assert [each[0] for each in said] == [
        "roomy", "filled", "full", "recoveries", "refused", "nothing half written", "roomy",
    ]  # fmt: skip
    said_of = dict(reversed(said))
    assert said_of["roomy"] == "None"
    assert said[-1] == ["roomy", "None"]
    assert said_of["filled"] == str(errno.ENOSPC)
    assert "no new work is accepted, running jobs go on" in said_of["full"]
    assert "Free at least 4 MiB" in said_of["full"]
    assert said_of["recoveries"] == "True"
    assert f"nothing could be written in {disk} (database or disk is full)" in said_of["refused"]
    assert "Free at least 32 MiB there" in said_of["refused"]
    assert said_of["nothing half written"] == "True"


def _run_python(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
