"""Brings a journal's tables to those of today, in any database.

Called by those who open a journal, in a transaction of theirs. Must not load alembic for nothing.
"""

from sqlalchemy import Connection, insert, inspect, select

from holdfast.driver.adapters.sql import tables


def bring_up_to_date(connection: Connection) -> None:
    """A new database gets today's tables; one of an older Holdfast is migrated.

    Raises `PermanentError` where it is of a later Holdfast.
    """
    if (revision := _revision(connection)) is None:
        tables.metadata.create_all(connection)
        connection.execute(insert(tables.head).values(id=1, term=0, sequence=0, now=0.0))
        connection.execute(insert(tables.state).values(id=1))
        connection.execute(insert(tables.authority).values(id=1))
        tables.revision.create(connection)
        connection.execute(insert(tables.revision).values(version_num=tables.HEAD_REVISION))
    elif revision != tables.HEAD_REVISION:
        from holdfast.driver.adapters import migrations  # takes half a second, is seldom needed

        migrations.upgrade(connection)


def make_new(connection: Connection) -> None:
    """Only a new database gets tables: whoever leads may still write those of an older Holdfast.
    One that has no place for a CA is migrated for all that: no driver with TLS leads there.

    Raises `PermanentError` as above.
    """
    if _revision(connection) is None or not inspect(connection).has_table(tables.authority.name):
        bring_up_to_date(connection)
    else:
        check_not_later(connection)


def check_not_later(connection: Connection) -> None:
    """Raise `PermanentError` where the tables are of a later Holdfast. Changes nothing."""
    if (revision := _revision(connection)) not in (None, tables.HEAD_REVISION):
        from holdfast.driver.adapters import migrations  # as above

        migrations.check_known(str(revision))


def _revision(connection: Connection) -> str | None:
    """The migration that made the tables; None where there are none."""
    if not inspect(connection).has_table(tables.revision.name):
        return None
    return str(connection.scalar(select(tables.revision.c.version_num)))
