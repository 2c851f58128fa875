"""The state in a database: whole, and beside it what each commit since then changed.

Used by `journal`, within its transactions. A state is 10 MB where ranks are 100,000; a commit
changes some hundred bytes of it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, insert, literal, select, true, union_all, update

from holdfast.driver.adapters.sql import tables
from holdfast.driver.formats.encode import UnreadableState, fold
from holdfast.driver.ports import Claim, Entry, PermanentError


class Commit(NamedTuple):
    """What is written at once; `change`: `state` is what the entries changed of the one before."""

    entries: Sequence[Entry]
    state: bytes
    change: bool
    claims: Sequence[Claim]


_parts = union_all(
    select(literal(0).label("at"), tables.state.c.body),
    select(tables.changes.c.sequence, tables.changes.c.body),
).subquery()
QUERY = (
    select(*tables.head.c["sequence", "now"], _parts.c.body)
    .select_from(tables.head.join(_parts, true()))
    .order_by(_parts.c.at)
)
"""All of it in one statement, which sees one moment whatever is committed meanwhile."""


def of(rows: Sequence[Any]) -> tuple[bytes | None, int, float]:
    """The newest state (encoded, None before the first), its sequence, and its time.

    Raises `PermanentError` where it cannot be read.
    """
    (sequence, now, whole), *changed = rows
    if whole is None or not changed:
        return whole, sequence, now
    try:
        return fold(whole, [row.body for row in changed]), sequence, now
    except UnreadableState as error:
        raise PermanentError(str(error)) from error


def write(connection: Connection, commit: Commit) -> None:
    if commit.change:
        last = commit.entries[-1].sequence
        connection.execute(insert(tables.changes).values(sequence=last, body=commit.state))
        return
    connection.execute(update(tables.state).values(body=commit.state))
    connection.execute(delete(tables.changes))
