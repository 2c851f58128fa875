"""What the journal in PostgreSQL alone has to prove; its contract is in `test_driver_journal`."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from cuttable import Cuttable
from postgres import Postgres, running_postgres
from running_driver import DriverProcess
from sharing_drivers import password_file
from sqlalchemy import create_engine
from waiting import DEADLINE_S, eventually

from holdfast.driver.adapters import migrations
from holdfast.driver.adapters.sql import tables
from holdfast.driver.adapters.sql.journal import NoRoom, SqlJournal
from holdfast.driver.adapters.sql.postgres import check_postgres, open_postgres
from holdfast.driver.core.events import Ticked
from holdfast.driver.ports import (
    Claim,
    Entry,
    InDoubt,
    Key,
    PermanentError,
    TakenOver,
    TemporaryError,
)
from holdfast.protocol import exitcodes


def entry(sequence: int, *, term: int = 1) -> Entry:
    return Entry(
        sequence=sequence,
        term=term,
        now=float(sequence),
        at="",
        policy=1,
        event=Ticked(),
        effects=(),
        why=f"reason {sequence}",
    )


@pytest.fixture
def journal(postgres: Postgres, database: str) -> Iterator[SqlJournal]:
    opened = open_postgres(postgres.url(database))
    opened.take_over()
    yield opened
    opened.close()


@pytest.fixture
def relay(
    relay: Cuttable, postgres: Postgres, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Cuttable:
    """Over which libpq has the password, too."""
    monkeypatch.setenv("PGPASSFILE", str(password_file(postgres, tmp_path)))
    return relay


# ---------------------------------------------------------------- its tables


async def test_two_drivers_that_find_an_empty_database_make_its_tables_once(
    postgres: Postgres, database: str
) -> None:
    opened = await asyncio.gather(
        *(asyncio.to_thread(open_postgres, postgres.url(database)) for _ in range(4))
    )
    assert [each.take_over().term for each in opened] == [1, 2, 3, 4]
    for each in opened:
        each.close()


def test_migrations_make_in_postgresql_the_tables_that_the_code_uses(
    postgres: Postgres, database: str
) -> None:
    """From the first revision on, as a journal of an older Holdfast gets them."""
    url = postgres.url(database).replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url)
    with engine.begin() as connection:
        tables.revision.create(connection)
    open_postgres(postgres.url(database)).close()
    with engine.begin() as connection:
        context = MigrationContext.configure(connection)
        assert context.get_current_revision() == tables.HEAD_REVISION
        assert compare_metadata(context, tables.metadata) == []
        migrations.upgrade(connection)
        assert connection.execute(tables.head.select()).one() == (1, 0, 0, 0.0)
    engine.dispose()


def test_a_database_of_a_later_holdfast_is_refused(postgres: Postgres, database: str) -> None:
    open_postgres(postgres.url(database)).close()
    postgres.execute(database, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(PermanentError, match="another version of Holdfast"):
        open_postgres(postgres.url(database))
    postgres.execute("postgres", f"DROP DATABASE {database}")  # nobody is connected to it any more


def test_who_is_to_stand_by_is_told_that_a_later_holdfast_was_here_before_anything_is_changed(
    postgres: Postgres, database: str
) -> None:
    check_postgres(postgres.url(database))
    with pytest.raises(psycopg.errors.UndefinedTable):
        postgres.execute(database, "SELECT * FROM alembic_version")
    open_postgres(postgres.url(database)).close()
    check_postgres(postgres.url(database))
    postgres.execute(database, "UPDATE alembic_version SET version_num = '0001'")
    check_postgres(postgres.url(database))
    postgres.execute(database, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(PermanentError, match="another version of Holdfast"):
        check_postgres(postgres.url(database))


def test_a_driver_of_an_earlier_holdfast_does_not_stand_by(
    postgres: Postgres, database: str, tmp_path: Path
) -> None:
    """Else a roll-out back would stop whoever leads, one after the other."""
    open_postgres(postgres.url(database)).close()
    postgres.execute(database, "UPDATE alembic_version SET version_num = '9999'")
    driver = DriverProcess(tmp_path / "s", "--journal", postgres.url(database), "--standby")
    try:
        assert driver.spawn().wait(DEADLINE_S) == exitcodes.CONFIGURATION
    finally:
        driver.end()
    said = driver.log.read_text()
    assert "journal: of another version of Holdfast" in said
    assert "stands by" not in said


# ---------------------------------------------------------------- errors in our words


@pytest.mark.parametrize(
    ("state", "error", "sentence"),
    [
        ("53100", NoRoom, "the database has no room (no luck"),
        ("40P01", TemporaryError, "the database is away (no luck"),
        ("40001", TemporaryError, "the database is away (no luck"),
        ("53300", TemporaryError, "the database is away (no luck"),
        ("57014", TemporaryError, "the database is away (no luck"),
        ("25006", TemporaryError, "the database is away (no luck"),
        ("42501", PermanentError, "no luck"),
        ("XX001", PermanentError, "no luck"),
    ],
)
async def test_what_the_server_says_is_an_error_of_the_port_and_nothing_is_written(
    postgres: Postgres,
    database: str,
    journal: SqlJournal,
    state: str,
    error: type[Exception],
    sentence: str,
) -> None:
    raising = f"BEGIN RAISE EXCEPTION 'no luck' USING ERRCODE = '{state}'; END"
    postgres.execute(
        database,
        f"CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ {raising} $$;"
        "CREATE TRIGGER fail BEFORE INSERT ON entries EXECUTE FUNCTION fail()",
    )
    with pytest.raises(error) as raised:
        await journal.commit([entry(1)], b"s")
    assert sentence in str(raised.value)
    assert type(raised.value) is error
    assert journal.load() == (None, 0, 0.0)
    postgres.execute(database, "DROP TRIGGER fail ON entries")
    await journal.commit([entry(1)], b"s")
    assert journal.load() == (b"s", 1, 1.0)


async def test_where_the_answer_to_a_commit_is_lost_the_same_again_tells(
    postgres: Postgres, database: str, relay: Cuttable
) -> None:
    journal = await asyncio.to_thread(open_postgres, postgres.url(database, port=relay.at_port))
    await asyncio.to_thread(journal.take_over)
    claims = [Claim(Key("key", b"digest"), 1)]
    relay.hold_answers(rb"reason 1.*COMMIT")
    writing = asyncio.create_task(journal.commit([entry(1)], b"s", claims=claims))
    await relay.holds.wait()
    await relay.cut()
    with pytest.raises(InDoubt):
        await writing
    with pytest.raises(TemporaryError):  # the way is cut
        await journal.commit([entry(1)], b"s", claims=claims)
    relay.release()
    await relay.mend()
    await journal.commit([entry(1)], b"s", claims=claims)
    await journal.commit([entry(2)], b"t")
    stored = await asyncio.to_thread(journal.entries)
    assert [each.sequence for each in stored] == [1, 2]
    journal.close()


async def test_a_driver_that_is_stopped_in_a_transaction_holds_nobody_up_for_long(
    postgres: Postgres, database: str, relay: Cuttable, journal: SqlJournal
) -> None:
    """The server frees its row after five seconds, and the other has waited for that."""
    old = await asyncio.to_thread(open_postgres, postgres.url(database, port=relay.at_port))
    assert (await asyncio.to_thread(old.take_over)).term == 2
    relay.hold_answers(rb"reason 1")
    writing = asyncio.create_task(old.commit([entry(1, term=2)], b"stale"))
    await relay.holds.wait()
    assert (await asyncio.to_thread(journal.take_over)).term == 3
    relay.release()
    with pytest.raises(TemporaryError):
        await writing
    with pytest.raises(TakenOver, match="with term 3"):
        await old.commit([entry(1, term=2)], b"stale")
    await journal.commit([entry(1, term=3)], b"new")
    assert journal.load()[0] == b"new"
    old.close()


async def test_it_goes_on_after_the_server_was_away(
    postgres: Postgres, journal: SqlJournal
) -> None:
    await journal.commit([entry(1)], b"s")
    postgres.stop()
    try:
        for _ in range(2):
            with pytest.raises(TemporaryError, match="the database is away"):
                await journal.commit([entry(2)], b"t")
        with pytest.raises(TemporaryError, match="the database is away"):
            journal.check_term()
    finally:
        postgres.start()
    await journal.commit([entry(2)], b"t")
    postgres.stop("immediate")  # as after a crash
    postgres.start()
    await journal.commit([entry(3)], b"u")
    assert journal.load() == (b"u", 3, 3.0)


# ---------------------------------------------------------------- its password


def test_a_password_in_the_address_is_refused_and_not_repeated(postgres: Postgres) -> None:
    for url in ("postgresql://me:letmein@127.0.0.1/db", "postgresql://me@/db?password=letmein"):
        with pytest.raises(PermanentError, match="PGPASSFILE") as raised:
            open_postgres(url)
        assert "letmein" not in str(raised.value)
    with pytest.raises(PermanentError, match="libpq cannot read") as raised:
        open_postgres("postgresql://me:letmein@[::1/db")
    assert "letmein" not in str(raised.value)


def test_a_wrong_password_is_said_and_not_repeated(
    postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "letmein")
    with pytest.raises(TemporaryError, match="password authentication failed") as raised:
        open_postgres(postgres.url(database, port=postgres.port))
    said = str(raised.value)
    assert said.startswith("journal: the database refuses this driver (")
    assert "and the password in the file that PGPASSFILE names, or in PGPASSWORD." in said
    assert "letmein" not in said


def test_a_database_that_is_not_there_is_said_with_how_to_make_it(postgres: Postgres) -> None:
    with pytest.raises(TemporaryError, match="Make it with createdb, or name another with --jour"):
        open_postgres(postgres.url("nowhere"))


# ---------------------------------------------------------------- a server of one's own

KEEP_ONE = """
from holdfast.lab.postgres import running_postgres
with running_postgres() as server:
    print(server.folder, flush=True)
    input()
"""


def test_of_a_server_whose_owner_was_killed_nothing_is_left(postgres: Postgres) -> None:
    command = [sys.executable, "-c", KEEP_ONE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tests:
        assert tests.stdout is not None
        folder = Path(tests.stdout.readline().decode().strip())
        server = int((folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(tests.pid, signal.SIGKILL)
    eventually(lambda: not folder.exists(), "its files are gone")
    eventually(lambda: ended(server), "and its process")


def ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("required", [False, True])
def test_without_a_server_tests_are_skipped_or_fail_where_it_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, required: bool
) -> None:
    monkeypatch.setattr("holdfast.lab.postgres.INSTALLED", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOLDFAST_TEST_POSTGRES", "required" if required else "")
    outcomes = (pytest.fail.Exception, pytest.skip.Exception)
    missing = "no PostgreSQL here: install its server"
    with pytest.raises(outcomes, match=missing) as ended, running_postgres():
        raise AssertionError("there is none")
    assert ended.type is outcomes[0 if required else 1]


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_all_text_is_refused_with_how_to_make_one(
    postgres: Postgres, encoding: str
) -> None:
    name = f"in_{encoding.lower()}"
    making = f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
    postgres.execute("postgres", f"{making} TEMPLATE template0")
    for opens in (open_postgres, check_postgres):
        with pytest.raises(PermanentError) as refused:
            opens(postgres.url(name))
        assert str(refused.value).startswith(
            f"--journal: the database '{name}' has the encoding {encoding}, which cannot hold all "
        )
        assert "--encoding UTF8 --template template0" in str(refused.value)
    with psycopg.connect(postgres.url(name)) as connection:
        tables_there = connection.execute("SELECT count(*) FROM pg_tables WHERE tablename = 'term'")
        assert tables_there.fetchone() == (0,)
