"""Entries that nobody asks for any more go from the journal's database: statements.

Used by `journal`, in transactions of its own. Pages of SQLite that become free are used again; the
file does not shrink.
"""

from collections.abc import Collection

from sqlalchemy import Connection, delete, select

from holdfast.driver.adapters.sql import tables
from holdfast.driver.ports import Pruned

Told = list[tuple[int | None, str | None]]
"""Of an entry: its incident beside each of its jobs."""
AT_ONCE = 500
"""Entries that one transaction looks at: what the loop commits waits behind it."""


def prune(
    connection: Connection,
    *,
    after: int,
    keep: int,
    jobs: Collection[str],
    incidents: Collection[int],
) -> Pruned:
    """See `ports.EntryStore`."""
    newest = connection.scalar(select(tables.head.c.sequence)) or 0
    found = _entries(connection, after, newest - keep)
    gone = [sequence for sequence, told in found if not _asked_for(told, jobs, incidents)]
    for table in (tables.entry_jobs, tables.entry_nodes, tables.claims, tables.entries):
        if gone:
            connection.execute(delete(table).where(table.c.sequence.in_(gone)))
    return Pruned(upto=found[-1][0] if found else None, gone=len(gone))


def _entries(connection: Connection, after: int, upto: int) -> list[tuple[int, Told]]:
    """The next ones, by their sequence."""
    entries, of_jobs = tables.entries.c, tables.entry_jobs.c
    some = (
        select(entries.sequence, entries.incident)
        .where(entries.sequence > after, entries.sequence <= upto)
        .order_by(entries.sequence)
        .limit(AT_ONCE)
        .subquery()
    )
    rows = connection.execute(
        select(some.c.sequence, some.c.incident, of_jobs.job)
        .select_from(some.outerjoin(tables.entry_jobs, of_jobs.sequence == some.c.sequence))
        .order_by(some.c.sequence)
    )
    told: dict[int, Told] = {}
    for sequence, incident, job in rows:
        told.setdefault(sequence, []).append((incident, job))
    return [*told.items()]


def _asked_for(told: Told, jobs: Collection[str], incidents: Collection[int]) -> bool:
    return any(incident in incidents or job in jobs for incident, job in told)
