"""The journal in an SQLite file: opened, brought to today's tables, and its errors in our words.

Called by `driver.main` and by those who read a run's journal without a driver (`read_only`). All
that is SQLite's own stands here.
"""

import contextlib
import sqlite3
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError

from holdfast.driver.adapters.journal import NoRoom, SqlJournal
from holdfast.driver.adapters.journal_reserve import RESERVE_BYTES, Reserve
from holdfast.driver.adapters.journal_upgrade import bring_up_to_date
from holdfast.driver.ports import PermanentError, TemporaryError

BUSY_S = 5.0
"""A reader such as `holdfast why` may hold a lock for a moment."""

_WRITE_ERRORS = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE")
_PASSING_ERRORS = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR")


def open_sqlite(path: Path, *, reserve_bytes: int = RESERVE_BYTES) -> SqlJournal:
    """The journal at `path`, made or migrated where needed.

    Raises `PermanentError` where it is not a journal, or of a later Holdfast.
    """
    with contextlib.suppress(OSError):  # SQLite says below why the file cannot be made
        path.touch(mode=0o600)  # what SQLite puts beside it gets the same mode
    engine = _engine(f"sqlite:///{path}")
    try:
        with engine.begin() as connection:
            bring_up_to_date(connection)
    except SQLAlchemyError as error:
        raise translate(error) from error
    reserve = Reserve(path.with_suffix(".reserve"), size_bytes=reserve_bytes)
    return SqlJournal(engine, translate=translate, reserve=reserve)


def read_only(path: Path) -> SqlJournal:
    """The journal at `path` for reading, whether a driver runs or not; it changes nothing."""
    return SqlJournal(_engine(f"sqlite:///file:{path}?mode=ro&uri=true"), translate=translate)


def translate(error: SQLAlchemyError) -> TemporaryError | PermanentError:
    """What an error of SQLite means to the driver, in a sentence."""
    cause = error.__cause__ or error
    name = str(getattr(cause, "sqlite_errorname", ""))
    if name.startswith(_WRITE_ERRORS):
        return NoRoom(f"journal: nothing could be written ({cause}). Free some disk space.")
    if name.startswith(_PASSING_ERRORS):
        return TemporaryError(f"journal: {cause}")
    return PermanentError(f"journal: {cause}. Check the file, or start with another --state.")


def _engine(url: str) -> Engine:
    """An engine whose transactions are SQLite's own, tables among them, not those of `sqlite3`."""
    engine = create_engine(url, connect_args={"timeout": BUSY_S})

    @event.listens_for(engine, "connect")
    def _set_up(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine
