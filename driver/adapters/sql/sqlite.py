"""The journal in an SQLite file: opened, brought to today's tables, and its errors in our words.

Called by `driver.main` and by those who read a run's journal without a driver (`read_only`). All
that is SQLite's own stands here.
"""

import contextlib
import sqlite3
from functools import partial
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from holdfast.driver.adapters.sql.journal import NoRoom, SqlJournal
from holdfast.driver.adapters.sql.reserve import RESERVE_BYTES, Reserve
from holdfast.driver.adapters.sql.upgrade import bring_up_to_date
from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.kit.logs import LazyLogger

_log = LazyLogger()

BUSY_S = 5.0
"""A reader such as `holdfast why` may hold a lock for a moment."""

PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "foreign_keys=ON",
    "cache_size=-65536",  # KiB: entries of each of 12,500 nodes go to another page of an index
)

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
        raise translate(error, path.parent) from error
    reserve = Reserve(path.with_suffix(".reserve"), size_bytes=reserve_bytes)
    secure = partial(_into_the_file, engine)
    secure()
    told = partial(translate, folder=path.parent)
    return SqlJournal(engine, translate=told, reserve=reserve, secure=secure)


def _into_the_file(engine: Engine) -> None:
    """What lies in the log beside the file, where a young journal would be as a whole: who copies
    or keeps the file alone has the tables and the first term. Where somebody reads, or the disk is
    full, it stays in the log, as what comes later does for a while.
    """
    try:
        with contextlib.closing(engine.raw_connection()) as connection:
            connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except (SQLAlchemyError, sqlite3.Error) as error:
        _log.warning("journal not checkpointed", why=str(error))


def read_only(path: Path) -> tuple[SqlJournal, str]:
    """The journal at `path` for reading, and what may be missing of it, a sentence or "".

    It changes no entry, whether a driver runs or not. Where SQLite cannot put its index of the
    newest entries beside them (a folder that is not ours to write, a full disk), it reads without.
    """
    uri, missing = f"file:{quote(str(path))}?mode=ro", ""
    try:
        with contextlib.closing(_connect(uri)) as connection:
            connection.execute("SELECT 1 FROM sqlite_schema")
    except sqlite3.OperationalError as error:
        uri += "&immutable=1"
        newest = path.with_name(f"{path.name}-wal")
        if newest.exists() and newest.stat().st_size:
            missing = (
                f"the newest entries of {path} may be missing here: its folder cannot be written "
                f"({error}). Free some disk space there, or copy the folder to read all of it."
            )
    engine = create_engine("sqlite://", creator=lambda: _connect(uri), poolclass=NullPool)
    return SqlJournal(engine, translate=partial(translate, folder=path.parent)), missing


def translate(error: SQLAlchemyError, folder: Path) -> TemporaryError | PermanentError:
    """What an error of SQLite means to the driver, in a sentence. `folder`: of the journal."""
    cause = error.__cause__ or error
    name = str(getattr(cause, "sqlite_errorname", ""))
    if name.startswith(_WRITE_ERRORS):
        return NoRoom(
            f"journal: nothing could be written in {folder} ({cause}): until then nothing is "
            f"started, cured or stopped. Free at least {2 * RESERVE_BYTES >> 20} MiB there, and it "
            "goes on by itself."
        )
    if name.startswith(_PASSING_ERRORS):
        return TemporaryError(f"journal: {cause}")
    return PermanentError(f"journal: {cause}. Check the file, or start with another --state.")


def _connect(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, timeout=BUSY_S)


def _engine(url: str) -> Engine:
    """An engine whose transactions are SQLite's own, tables among them, not those of `sqlite3`."""
    engine = create_engine(url, connect_args={"timeout": BUSY_S}, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def _set_up(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            "cache_size=-65536",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine
