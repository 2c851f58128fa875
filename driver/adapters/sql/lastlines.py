"""The last lines of ranks in the journal's database: statements, for whoever has a connection.

Used by `journal`, in transactions of its own.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, Select, delete, insert, or_, select

from holdfast.driver.adapters.sql import tables
from holdfast.driver.ports import Kept

_table = tables.last_lines


def put(connection: Connection, told: Sequence[Kept], jobs: Collection[str]) -> None:
    """Keep each in the place of an older one of its rank; forget those of jobs not in `jobs`."""
    connection.execute(delete(_table).where(_table.c.job.not_in(tuple(jobs))))
    for each in told:
        same = (_table.c.job == each.job, _table.c.rank == each.rank)
        older = or_(_table.c.number < each.number, _table.c.attempt <= each.attempt)
        connection.execute(delete(_table).where(*same, older))
        if connection.scalar(select(_table.c.attempt).where(*same)) is None:
            row = {name: getattr(each, name) for name in Kept.__struct_fields__}
            connection.execute(insert(_table).values(row))


def of(job: str, rank: int) -> Select[tuple[object, ...]]:
    """Asks for one rank's, with the columns in the order of the fields of `Kept`."""
    columns = (_table.c[name] for name in Kept.__struct_fields__)
    return select(*columns).where(_table.c.job == job, _table.c.rank == rank)
