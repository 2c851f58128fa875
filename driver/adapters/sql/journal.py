"""The journal in a database: entries and the state they led to, in one transaction.

Made by `sqlite` and `postgres`, used by the driver's loop. One thread writes; every
commit is on condition that term and sequence are as this writer left them, so that a driver that
was replaced can write nothing more. Must not hold SQL that only one database understands.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Engine, Row, Table, insert, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.sql.selectable import TypedReturnsRows

from holdfast.driver.adapters.sql import lastlines, positions, pruning, saved, tables
from holdfast.driver.adapters.sql.reserve import Reserve
from holdfast.driver.adapters.sql.saved import Commit
from holdfast.driver.adapters.sql.told import RESTATES, told
from holdfast.driver.ports import (
    Claim,
    Entry,
    InDoubt,
    Kept,
    Key,
    Pair,
    PermanentError,
    Pruned,
    Taken,
    TakenOver,
    TemporaryError,
)
from holdfast.kit.logs import LazyLogger

_log = LazyLogger()
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode


T = TypeVar("T")
Query = TypedReturnsRows[*tuple[Any, ...]]
Rows = Sequence[Row[*tuple[Any, ...]]]

TURNING = '"doing":{"'
"""Of a body that has one or more jobs there. Within a text of somebody's its marks have a backslash
before them."""

CLOSE_S = 1.0
"""For a commit that goes on when the journal is closed; a database that answers needs much less."""


class NoRoom(TemporaryError):
    """The disk under the journal is full."""


class SqlJournal:
    """A `ports.Journal`, and its three stores, on an SQLAlchemy engine.

    `translate` makes our errors of the engine's. `hang_up` has to end what waits for an answer that
    may never come.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        translate: Callable[[SQLAlchemyError], TemporaryError | PermanentError],
        reserve: Reserve | None = None,
        hang_up: Callable[[], None] = lambda: None,
        secure: Callable[[], None] | None = None,
    ) -> None:
        """`secure` is called once after the first commit, on the writer's thread."""
        self._engine = engine
        self._secure = secure
        self._translate = translate
        self._reserve = reserve
        self._hang_up = hang_up
        self._term: int | None = None  # none was taken: for reading alone
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._writing: Future[None] | None = None

    def take_over(self) -> Taken:
        head = tables.head.c
        taking = update(tables.head).where(head.id == 1).values(term=head.term + 1)
        query = taking.returning(head.term)
        while True:
            try:
                term, found = self._read_all(query, saved.QUERY)
                break
            except NoRoom:
                if not self._make_room():
                    raise
        self._term = term[0][0]
        state, sequence, now = saved.of(found)
        return Taken(term=term[0][0], state=state, sequence=sequence, now=now)

    def check_term(self) -> None:
        _same_term(self._term, self._read(select(tables.head.c.term))[0][0])

    def pass_over(self, term: int) -> None:
        head = tables.head.c
        ours = update(tables.head).where(head.id == 1, head.term == self._term)
        if self._read(ours.values(term=term).returning(head.term)):
            raise TakenOver(
                f"journal: executors have followed another driver's term {term}, and this one's "
                f"is {self._term}: it was put back from a backup. This driver has stopped, and the "
                "next takes a later term: have it started again."
            )
        self.check_term()

    def load(self) -> tuple[bytes | None, int, float]:
        """The newest state (encoded), its sequence, and the `now` that it was committed at."""
        return saved.of(self._read(saved.QUERY))

    async def commit(
        self,
        entries: Sequence[Entry],
        state: bytes,
        *,
        change: bool = False,
        claims: Sequence[Claim] = (),
    ) -> None:
        commit = Commit(entries, state, change, claims)
        while True:
            try:
                return await self._written(commit)
            except NoRoom:
                if not self._make_room():
                    raise

    def entries(
        self,
        *,
        after: int = 0,
        job: str | None = None,
        node: str | None = None,
        incident: int | None = None,
        turning: bool = False,
        telling: bool = False,
        limit: int = 1_000,
    ) -> list[Entry]:
        table = tables.entries
        query, place = select(table.c.body), table.c.sequence
        if job is not None:
            query = query.join(tables.entry_jobs).where(tables.entry_jobs.c.job == job)
            place = tables.entry_jobs.c.sequence
        if node is not None:
            query = query.join(tables.entry_nodes).where(tables.entry_nodes.c.node == node)
            place = tables.entry_nodes.c.sequence
        if incident is not None:
            query = query.where(table.c.incident == incident)
        if turning:
            query = query.where(table.c.body.contains(TURNING))
        if telling:
            query = query.where(~table.c.body.contains(RESTATES))
        # by the index that has found them: by another name of the same all bodies would be sorted
        rows = self._read(query.where(place > after).order_by(place).limit(limit))
        return [(told if telling else _decode)(row[0]) for row in rows]

    def claim(self, key: str) -> Claim | None:
        columns = tables.claims.c["key", "digest", "sequence"]
        rows = self._read(select(*columns).where(tables.claims.c.key == key))
        return Claim(Key(rows[0][0], rows[0][1]), rows[0][2]) if rows else None

    def authority(self, make: Callable[[], Pair]) -> Pair:
        """The CA of all drivers of this journal: the one that is kept, else what `make` gives.

        Of drivers that make one at the same time the first one's is kept.
        """
        table = tables.authority
        query = select(*table.c["certificate", "key"])
        if self._read(query)[0][0] is None:
            made = make()
            ours = update(table).where(table.c.id == 1, table.c.certificate.is_(None))
            new = ours.values(certificate=made.certificate, key=made.key)
            self._read(new.returning(table.c.id))
        certificate, key = self._read(query)[0]
        return Pair(certificate=certificate, key=key)

    async def keep(self, told: Sequence[Kept], *, jobs: Collection[str]) -> None:
        put = partial(lastlines.put, told=told, jobs=jobs)
        await asyncio.wrap_future(self._writer.submit(self._beside, put))

    async def keep_position(self, name: str, sequence: int) -> None:
        put = partial(positions.put, name=name, sequence=sequence)
        await asyncio.wrap_future(self._writer.submit(self._beside, put))

    def position(self, name: str) -> int | None:
        rows = self._read(positions.of(name))
        return rows[0][0] if rows else None

    async def prune(
        self, *, after: int, keep: int, jobs: Collection[str], incidents: Collection[int]
    ) -> Pruned:
        asked = partial(
            pruning.prune,
            after=after,
            keep=keep,
            jobs=frozenset(jobs),
            incidents=frozenset(incidents),
        )
        return await asyncio.wrap_future(self._writer.submit(self._beside, asked))

    def _beside(self, what: Callable[[Connection], T]) -> T:
        """A transaction on the writer's thread that moves no head."""
        try:
            with self._engine.begin() as connection:
                _same_term(self._term, connection.scalar(select(tables.head.c.term)) or 0)
                return what(connection)
        except SQLAlchemyError as error:
            raise self._translate(error) from error

    def kept(self, job: str, rank: int) -> Kept | None:
        rows = self._read(lastlines.of(job, rank))
        return Kept(**rows[0]._mapping) if rows else None

    def shortage(self) -> str | None:
        return self._reserve.missing() if self._reserve else None

    def close(self) -> None:
        """Let the database go. A commit that was ordered is finished, where it answers in time."""
        if self._writing is not None:
            wait([self._writing], timeout=CLOSE_S)
        self._hang_up()
        self._writer.shutdown(wait=True)
        self._engine.dispose()

    def _make_room(self) -> bool:
        """Give a piece of the reserve up; False where none is left."""
        if self._reserve is None or not self._reserve.release():
            return False
        _log.warning("journal reserve released", why="the disk under the journal is full")
        return True

    def _read(self, query: Query) -> Rows:
        """The answer of one statement, which is a transaction."""
        return self._read_all(query)[0]

    def _read_all(self, *queries: Query) -> list[Rows]:
        """The answers of statements in one transaction."""
        try:
            with self._engine.begin() as connection:
                return [connection.execute(query).all() for query in queries]
        except SQLAlchemyError as error:
            raise self._translate(error) from error

    async def _written(self, commit: Commit) -> None:
        """On the writer's thread, also where whoever waits for it is cancelled."""
        self._writing = self._writer.submit(self._write, commit)
        await asyncio.wrap_future(self._writing)

    def _write(self, commit: Commit) -> None:
        """One transaction, on the writer's thread."""
        sent = False
        try:
            with self._engine.connect() as connection:
                if _advance(connection, self._term, commit.entries):
                    saved.write(connection, commit)
                    _append(connection, commit)
                    sent = True
                    connection.commit()
            secure, self._secure = self._secure, None
        except SQLAlchemyError as error:
            failure = self._translate(error)
            if sent and type(failure) is TemporaryError:
                raise InDoubt(str(failure)) from error
            raise failure from error
        if secure is not None:
            secure()


def _advance(connection: Connection, term: int | None, entries: Sequence[Entry]) -> bool:
    """Move the head on, if it is where this writer left it and the term is still this writer's.

    False where these very entries are there already, by a commit whose answer was lost. Waits for
    that commit if it still goes on, for both change the same row.
    """
    first, last = entries[0], entries[-1]
    head = tables.head.c
    moved = connection.execute(
        update(tables.head)
        .where(head.id == 1, head.term == term, head.sequence == first.sequence - 1)
        .values(sequence=last.sequence, now=last.now)
    )
    if moved.rowcount == 1:
        return True
    found = connection.execute(select(*tables.head.c["term", "sequence"])).one()
    _same_term(term, found.term)
    newest = select(tables.entries.c.body).where(tables.entries.c.sequence == last.sequence)
    if connection.scalar(newest) == _encode(last).decode():
        return False
    raise PermanentError(
        f"journal: entry {first.sequence} refused, for the newest is {found.sequence}, which is "
        "not what this driver wrote. Start it again, and it goes on from what is there."
    )


def _same_term(ours: int | None, newest: int) -> None:
    if ours is None or newest < ours:
        raise PermanentError(
            f"journal: its term is {newest}, which is older than this driver's ({ours}): it was "
            "put back. Start the driver again, and it goes on from what is there."
        )
    if newest > ours:
        raise TakenOver(
            f"journal: another driver has taken over with term {newest}, so this one, of term "
            f"{ours}, has stopped. It wrote nothing since."
        )


def _append(connection: Connection, commit: Commit) -> None:
    entries = commit.entries
    rows: dict[Table, list[dict[str, object]]] = {
        tables.entries: [
            {"sequence": each.sequence, "incident": each.incident, "body": _encode(each).decode()}
            for each in entries
        ],
        tables.entry_jobs: [
            {"sequence": each.sequence, "job": job} for each in entries for job in {*each.jobs}
        ],
        tables.entry_nodes: [
            {"sequence": each.sequence, "node": name}
            for each in entries
            for name in set(each.nodes)
        ],
        tables.claims: [
            {"key": each.key.key, "digest": each.key.digest, "sequence": each.sequence}
            for each in commit.claims
        ],
    }
    for table, new in rows.items():
        if new:
            connection.execute(insert(table), new)
