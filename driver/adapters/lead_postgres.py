"""The lead as an advisory lock in the journal's database: PostgreSQL frees it with its session.

Made by `driver.lead.opening`. Its session is named after the driver, so that others can say who
leads.
"""

import asyncio

import psycopg

from holdfast.driver.adapters.sql.postgres import (
    ANSWER_S,
    Connection,
    connection_arguments,
    hang_up,
)
from holdfast.driver.ports import TemporaryError

_LEAD = 0x6C656164
"""Advisory lock of the driver that leads; per database, as the journal is."""

_TAKE = "SELECT pg_try_advisory_lock(%s)"
_HOLDER = """
SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND classid = 0 AND objid = %s AND objsubid = 1
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class PostgresLead:
    """A `standby.Lead`. `name` says in at most 63 characters which driver this is, and where."""

    def __init__(self, url: str, *, name: str) -> None:
        self._arguments = connection_arguments(url) | {"application_name": name}
        self._session: Connection | None = None
        self._ours = False

    async def seek(self) -> str:
        """See `standby.Lead`. A session on which there is no answer is given up for another."""
        looking = asyncio.ensure_future(asyncio.to_thread(self._seek))
        try:
            while not (await asyncio.wait([looking], timeout=ANSWER_S))[0]:
                if self._session is not None:
                    hang_up(self._session)
            return looking.result()
        finally:
            looking.cancel()

    async def close(self) -> None:
        self._hang_up()

    def _seek(self) -> str:
        try:
            if self._session is None:
                self._session = psycopg.connect(**self._arguments, autocommit=True)
            return self._sought(self._session)
        except psycopg.Error as error:
            self._hang_up()
            said = " ".join(str(error).split())
            raise TemporaryError(f"lead: the database is away ({said})") from error

    def _hang_up(self) -> None:
        session, self._session, self._ours = self._session, None, False
        if session is not None:
            hang_up(session)  # another thread may wait for an answer on it
            session.close()

    def _sought(self, session: Connection) -> str:
        if self._ours:
            session.execute("SELECT 1")  # is the session still there, and the lock with it?
            return ""
        taken = session.execute(_TAKE, [_LEAD]).fetchone()
        self._ours = taken is not None and taken[0]
        if self._ours:
            return ""
        holder = session.execute(_HOLDER, [_LEAD]).fetchone()
        return str(holder[0]) if holder else "another driver"
