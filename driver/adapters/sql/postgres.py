"""The journal in PostgreSQL: opened, brought to today's tables, and its errors in our words.

Called by `driver.journal.opening` where the settings name a database. All that is PostgreSQL's own
stands here. Must not be given a password in the address, nor tell one: libpq takes it from
PGPASSFILE or PGPASSWORD.
"""

import os
import re
import socket
import threading
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import psycopg
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Engine, create_engine, func, select
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from holdfast.driver.adapters.sql.journal import NoRoom, SqlJournal
from holdfast.driver.adapters.sql.upgrade import bring_up_to_date, check_not_later, make_new
from holdfast.driver.ports import PermanentError, TemporaryError

Connection = psycopg.Connection[tuple[Any, ...]]

ANSWER_S = 5
"""Without an answer of the other machine for so long, a connection is lost."""

STATEMENT_S = 10
"""A statement or a wait for a lock that takes longer is given up by the server."""

ENCODING = "UTF8"
"""The one that holds whatever jobs write."""

POOL_TIMEOUT_S = 5.0
READERS = 9
"""Connections beside the writer's: as many people's questions are answered at once."""

_UPGRADE_LOCK = 0x686F6C64
"""Advisory lock of those who make the tables: two drivers may start at once on a new database."""

_LINK: dict[str, Any] = {
    "application_name": "holdfast-driver",
    "connect_timeout": ANSWER_S,
    "target_session_attrs": "read-write",  # of several hosts the one that is no replica
    "tcp_user_timeout": ANSWER_S * 1_000,
    "keepalives_idle": ANSWER_S,
    "keepalives_interval": 1,
    "keepalives_count": ANSWER_S,
}
_LIMITS = (
    f"-c statement_timeout={STATEMENT_S}s -c lock_timeout={STATEMENT_S}s "
    f"-c idle_in_transaction_session_timeout={ANSWER_S}s "
    f"-c tcp_keepalives_idle={ANSWER_S} -c tcp_keepalives_interval=1 "
    f"-c tcp_keepalives_count={ANSWER_S} -c default_transaction_isolation=read\\ committed"
)
"""The third frees the row that a driver holds which was stopped between two statements, before
whoever waits for that row gives up; those after it the locks of a driver whose machine is gone."""

DISK_FULL = "53100"
_PASSING_STATES = ("08", "25006", "25P03", "40", "53", "55P03", "57", "58")
"""Classes and codes of appendix A of PostgreSQL's manual: connection lost, server on its way to or
from a replica, rolled back for another's sake, out of something, ended by its administrator."""


_REFUSALS = {
    "password authentication failed|no password supplied": "Check the user in --journal, and the "
    "password in the file that PGPASSFILE names, or in PGPASSWORD.",
    'role ".*" does not exist|no pg_hba.conf entry': "Check the user in --journal, and whom the "
    "server's pg_hba.conf lets in.",
    'database ".*" does not exist': "Make it with createdb, or name another with --journal.",
}
"""What PostgreSQL says before there is a connection, and what to do about it."""


def open_postgres(url: str, *, beside: bool = False) -> SqlJournal:
    """The journal in the database at `url`, made or migrated where needed; `beside` another driver,
    which may lead, it is not migrated.

    Raises `PermanentError` where it is no journal, of a later Holdfast or no database for all text,
    or the address has a password; `TemporaryError` where the database does not answer.
    """
    way = _Way(connection_arguments(url))
    engine = _engine(way)
    try:
        with engine.begin() as connection:
            connection.execute(select(func.pg_advisory_xact_lock(_UPGRADE_LOCK)))
            (make_new if beside else bring_up_to_date)(connection)
    except BaseException as error:
        engine.dispose()
        if isinstance(error, SQLAlchemyError):
            raise translate(error) from error
        raise
    return SqlJournal(engine, translate=translate, hang_up=way.hang_up)


def check_postgres(url: str) -> None:
    """Raise `PermanentError` as `open_postgres` would, `TemporaryError` too. Changes nothing."""
    engine = _engine(_Way(connection_arguments(url)))
    try:
        with engine.connect() as connection:
            check_not_later(connection)
    except SQLAlchemyError as error:
        raise translate(error) from error
    finally:
        engine.dispose()


def hang_up(connection: Connection) -> None:
    """End it under a thread that waits for an answer on it, which then gets an error at once.

    libpq itself waits for ever where the other machine lives and its database does not answer.
    """
    with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(connection.fileno())) as way:
        way.shutdown(socket.SHUT_RDWR)


class _Way:
    """Makes the connections of one journal, and ends all of them."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._arguments = arguments
        self._made: WeakSet[Connection] = WeakSet()
        self._over = threading.Event()
        self._lock = threading.Lock()  # readers connect on threads of their own

    def connect(self) -> Connection:
        if self._over.is_set():
            raise psycopg.OperationalError("this driver has hung up")
        made = psycopg.connect(**self._arguments)
        _check_encoding(made)
        with self._lock:
            self._made.add(made)
        if self._over.is_set():
            hang_up(made)
        return made

    def hang_up(self) -> None:
        """None is made any more, and nobody waits on any."""
        with self._lock:
            self._over.set()
            made = list(self._made)
        for each in made:
            hang_up(each)


def _check_encoding(connection: Connection) -> None:
    """End a connection to a database that cannot hold all text. Raises `PermanentError`.

    In SQL_ASCII even what was written comes back as bytes. The server says it unasked; where a
    pooler between leaves it out it is believed.
    """
    encoding = connection.info.parameter_status("server_encoding") or ENCODING
    if encoding != ENCODING:
        name = connection.info.dbname
        connection.close()
        raise PermanentError(
            f"--journal: the database {name!r} has the encoding {encoding}, which cannot hold all "
            "text. Make one with CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0 "
            "(createdb --encoding UTF8 --template template0), and name that."
        )


def connection_arguments(url: str) -> dict[str, Any]:
    """For `psycopg.connect`: the address, and our limits. Raises `PermanentError` as above."""
    given = _given(url)
    options = " ".join(filter(None, (_LIMITS, given.get("options"))))
    return {**_LINK, **given, "options": options}


def translate(error: SQLAlchemyError) -> TemporaryError | PermanentError:
    """What an error of PostgreSQL, or of the way to it, means to the driver, in a sentence."""
    cause = error.__cause__ or error
    said = " ".join(str(cause).split())
    state = getattr(cause, "sqlstate", None) or ""
    if state == DISK_FULL:
        return NoRoom(f"journal: the database has no room ({said}). Give its disk more.")
    lost = not state and isinstance(error, OperationalError | NoConnectionFree)
    if lost and (fix := _refusal(said)):
        what = f"journal: the database refuses this driver ({said}). {fix}"
        return TemporaryError(f"{what} Running jobs go on.")
    if lost or state.startswith(_PASSING_STATES):
        return TemporaryError(f"journal: the database is away ({said}). Running jobs go on.")
    return PermanentError(f"journal: {said}. Check the database, or name another with --journal.")


def _refusal(said: str) -> str:
    """What to change where the server does not let us in, which libpq tells by its text alone; ""
    for anything else, as where it speaks another language."""
    return next((fix for pattern, fix in _REFUSALS.items() if re.search(pattern, said)), "")


def _given(url: str) -> dict[str, Any]:
    """The parts of the address. What is wrong is not repeated: a password may be in it."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise PermanentError(
            "journal: libpq cannot read this address. Give postgresql://USER@HOST/DATABASE"
        ) from None
    if "password" in given:
        raise PermanentError(
            "journal: the address has a password, which others can read in the list of processes. "
            "Leave it out there, and give it in the file that PGPASSFILE names."
        )
    return given


def _engine(way: _Way) -> Engine:
    """An engine whose connections libpq makes, and which tries each before it is used again."""
    return create_engine(
        "postgresql+psycopg://",
        creator=way.connect,
        pool_pre_ping=True,
        pool_size=2,
        max_overflow=READERS - 1,
        pool_timeout=POOL_TIMEOUT_S,
        hide_parameters=True,  # secrets are among them
    )
