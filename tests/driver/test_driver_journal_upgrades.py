"""A database of an older Holdfast: nothing that was acknowledged is lost as it is migrated."""

import threading
from pathlib import Path

import psycopg
import pytest
from alembic import command
from postgres import Postgres
from sqlalchemy import create_engine
from waiting import eventually

from holdfast.driver.adapters import migrations
from holdfast.driver.adapters.sql.postgres import open_postgres
from holdfast.driver.serve.tls import open_tls
from holdfast.driver.settings import Settings
from holdfast.kit.clock import SystemClock

BEFORE_CHANGES = "0003"
WAITS = "SELECT 1 FROM pg_locks WHERE relation = 'head'::regclass AND NOT granted"


@pytest.fixture
def older(request: pytest.FixtureRequest, postgres: Postgres, database: str) -> str:
    """The address of a database in which an older Holdfast has written `before`."""
    engine = create_engine(postgres.url(database).replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        config = migrations._config()
        config.attributes["connection"] = connection
        command.upgrade(config, getattr(request, "param", BEFORE_CHANGES))
    engine.dispose()
    postgres.execute(database, "UPDATE head SET term = 1, sequence = 1, state = 'before'")
    return postgres.url(database)


def test_what_an_older_driver_is_committing_while_tables_are_migrated_is_kept(older: str) -> None:
    with psycopg.connect(older) as leader, psycopg.connect(older, autocommit=True) as looker:
        leader.execute("UPDATE head SET sequence = 2, state = 'acknowledged'")
        opened: list[object] = []

        def migrate() -> None:
            journal = open_postgres(older)
            opened.append(journal.load())
            journal.close()

        thread = threading.Thread(target=migrate)
        thread.start()
        eventually(lambda: looker.execute(WAITS).fetchone(), "the migration waits for the leader")
        leader.commit()
        thread.join()
    assert opened == [(b"acknowledged", 2, 0.0)]


def test_who_stands_by_with_tls_leaves_the_tables_to_who_leads(older: str, tmp_path: Path) -> None:
    settings = Settings(
        state=tmp_path,
        journal=older,
        standby=True,
        tls=True,
        cluster="kubernetes",
        _cli_parse_args=[],
    )
    assert open_tls(settings, SystemClock()).ca
    with psycopg.connect(older) as leader:
        assert leader.execute("SELECT state FROM head").fetchone() == (b"before",)


@pytest.mark.parametrize("older", ["0001"], indirect=True)
def test_who_stands_by_with_tls_makes_room_for_a_ca_where_there_is_none(
    older: str, tmp_path: Path
) -> None:
    settings = Settings(state=tmp_path, journal=older, standby=True, tls=True, _cli_parse_args=[])
    assert open_tls(settings, SystemClock()).ca
    journal = open_postgres(older)
    assert journal.load() == (b"before", 1, 0.0)
    journal.close()
