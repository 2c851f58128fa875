"""How far whoever follows the journal has come: statements, for whoever has a connection.

Used by `journal`, in transactions of its own.
"""

from sqlalchemy import Connection, Select, insert, select, update

from holdfast.driver.adapters.sql import tables

_table = tables.positions


def put(connection: Connection, name: str, sequence: int) -> None:
    ours = update(_table).where(_table.c.name == name).values(sequence=sequence)
    if connection.execute(ours).rowcount == 0:
        connection.execute(insert(_table).values(name=name, sequence=sequence))


def of(name: str) -> Select[tuple[int]]:
    return select(_table.c.sequence).where(_table.c.name == name)
