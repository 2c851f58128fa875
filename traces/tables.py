"""Spans as tables: DuckDB over what daemons left and what was packed, and views of them.

The library is an extra: who has none is told what to install. Nothing goes through Python row by
row but blocks that are not packed yet, and those as CSV, which DuckDB reads by the million.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from holdfast.protocol.spans import P2P
from holdfast.traces.axes import NONE, Axes
from holdfast.traces.block import Block
from holdfast.traces.segments import Reading, segments

INSTALL = "pip install 'holdfast[trace]'"
COLUMNS = {
    "job": "VARCHAR",
    "day": "DATE",
    "rank": "INTEGER",
    "attempt": "INTEGER",
    "node": "VARCHAR",
    "kind": "VARCHAR",
    "name": "VARCHAR",
    "grp": "UBIGINT",
    "number": "UINTEGER",
    "step": "UINTEGER",
    "start_s": "DOUBLE",
    "took_s": "DOUBLE",
    "waited_s": "DOUBLE",
    "ended": "BOOLEAN",
    "error_s": "DOUBLE",
    "whole": "BOOLEAN",
    "submitted_s": "DOUBLE",
}
"""Of the view `spans`, by name, but for `axis`: types of DuckDB."""

KEY = ("job", "submitted_s", "rank", "attempt", "kind", "name", "grp", "number", "start_s")
"""What is under way is told again as it goes on: the last word counts."""
RAW = (
    "read_csv(?, auto_detect = false, header = false, delim = ',', quote = '\"', escape = '\"', "
    "force_not_null = ['name'], columns = {{{}}})"
).format(", ".join(f"'{name}': '{kind}'" for name, kind in COLUMNS.items()))
"""What `write_rows` has written, by the name of its file."""

VIEWS = {
    "steps": """
        SELECT job, day, rank, attempt, node, step, start_s, took_s, waited_s,
               took_s - waited_s AS own_s, ended
        FROM plain WHERE kind = 'step'""",
    "collectives": """
        SELECT job, attempt, grp, any_value(axis) AS axis, number, any_value(name) AS name,
               min(step) AS step,
               count(DISTINCT rank) AS ranks, min(start_s) AS first_s, max(start_s) AS last_s,
               max(start_s) - min(start_s) AS late_s, arg_max(rank, start_s) AS last_rank,
               arg_max(node, start_s) AS last_node, max(took_s) AS took_s,
               sum(waited_s) AS waited_s, bool_and(ended) AS ended, max(error_s) AS error_s
        FROM spans WHERE kind = 'collective' GROUP BY job, attempt, grp, number""",
    "waits": """
        SELECT job, day, rank, attempt, node, kind, name, grp, axis, number, step, start_s,
               took_s, waited_s, ended
        FROM spans WHERE waited_s > 0 AND kind <> 'step'""",
    "incidents": """
        SELECT job, attempt, rank, node, kind, name, grp, axis, number, step, start_s, took_s,
               waited_s
        FROM spans WHERE NOT ended""",
}
"""Built on `spans`; docs/traces.md says what each is for."""


class NotInstalled(Exception):
    """DuckDB is not there; the message says what to do."""


class NoAnswer(Exception):
    """DuckDB refused the question; the message is its own, shortened."""


class Tables:
    """The tables of some jobs, in memory. `troubles`: what could not be read."""

    def __init__(self, connection: Any, troubles: Sequence[str]) -> None:
        self._connection = connection
        self.troubles = tuple(troubles)

    def ask(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Names of columns, and rows. Raises `NoAnswer`."""
        import duckdb

        try:
            answer = self._connection.execute(sql)
            names = [each[0] for each in answer.description or ()]
            return names, answer.fetchall()
        except duckdb.Error as error:
            raise NoAnswer(str(error).strip()) from error


@contextmanager
def tables(folders: Iterable[Path], *, axes: Mapping[str, Axes] | None = None) -> Iterator[Tables]:
    """Of these folders of traces. What is there may be read, and no other file, nor anything
    written. `axes`: by job, how it is parallel. Raises `NotInstalled`."""
    connection = connected()
    reading = Reading()
    try:
        with TemporaryDirectory(prefix="holdfast-trace-") as folder:
            raw = Path(folder) / "raw.csv"
            found = [Path(each) for each in folders]
            with raw.open("w", newline="") as file:
                write_rows(file, (b for each in found for b in _blocks(each, reading)))
            packed = [str(path) for each in found for path in packed_files(each)]
            _load(connection, raw, packed)
            _axes(connection, axes or {})
        connection.execute(f"SET allowed_paths = {_listed(packed)}")
        connection.execute("SET enable_external_access = false")
        for name, sql in VIEWS.items():
            connection.execute(f"CREATE VIEW {name} AS {sql}")
        yield Tables(connection, reading.troubles)
    finally:
        connection.close()


def connected() -> Any:
    """A database in memory. Raises `NotInstalled`."""
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise NotInstalled(
            f"DuckDB is not installed, and traces are asked through it. Install it: {INSTALL}"
        ) from error
    return duckdb.connect(":memory:")


def _blocks(folder: Path, reading: Reading) -> Iterator[Block]:
    for segment in segments(folder):
        yield from reading.blocks(segment.path)


def _load(connection: Any, raw: Path, packed: Sequence[str]) -> None:
    connection.execute(f"CREATE TABLE unpacked AS SELECT * FROM {RAW}", [str(raw)])
    names = ", ".join(COLUMNS)
    said = f"SELECT {names} FROM unpacked"
    if packed:
        files = f"read_parquet({_listed(packed)}, hive_partitioning = true)"
        said += f" UNION ALL SELECT {names} FROM {files}"
    newest = connection.execute(
        f"SELECT job, max(submitted_s) FROM ({said}) GROUP BY job"
    ).fetchall()
    # As constants: what is of none of them is not even read.
    lives = " OR ".join(f"(job = {_text(job)} AND submitted_s = {at!r})" for job, at in newest)
    connection.execute(f"CREATE VIEW told AS SELECT * FROM ({said}) WHERE {lives or 'false'}")
    _unfinished(connection)
    connection.execute(
        "CREATE VIEW plain AS SELECT * EXCLUDE (submitted_s) FROM told WHERE ended "
        "UNION ALL SELECT * EXCLUDE (submitted_s) FROM unfinished"
    )


def _axes(connection: Any, axes: Mapping[str, Axes]) -> None:
    """The view `spans`: with the axis of each group, and of each message by its name."""
    connection.execute("CREATE TABLE groups (job VARCHAR, grp UBIGINT, axis VARCHAR)")
    connection.execute("CREATE TABLE messages (job VARCHAR, rank INT, name VARCHAR, axis VARCHAR)")
    groups = "SELECT job, grp, min(rank) FROM plain WHERE grp <> 0 GROUP BY ALL"
    messages = f"SELECT DISTINCT job, rank, name FROM plain WHERE kind = '{P2P}'"
    for job, grp, rank in connection.execute(groups).fetchall():
        if axis := axes.get(job, NONE).of(rank, "", "", grp):
            connection.execute("INSERT INTO groups VALUES (?, ?, ?)", [job, grp, axis])
    for job, rank, name in connection.execute(messages).fetchall():
        if axis := axes.get(job, NONE).of(rank, P2P, name, 0):
            connection.execute("INSERT INTO messages VALUES (?, ?, ?, ?)", [job, rank, name, axis])
    connection.execute(
        "CREATE VIEW spans AS SELECT p.*, coalesce(g.axis, m.axis) AS axis FROM plain p "
        "LEFT JOIN groups g ON p.job = g.job AND p.grp = g.grp LEFT JOIN messages m "
        f"ON p.kind = '{P2P}' AND p.job = m.job AND p.rank = m.rank AND p.name = m.name"
    )


def _unfinished(connection: Any) -> None:
    """What was under way when it was last seen, each once, and not if its end is known."""
    keys, same = ", ".join(KEY), " AND ".join(f"u.{each} = l.{each}" for each in KEY)
    connection.execute(
        "CREATE TABLE unfinished AS SELECT * FROM told WHERE NOT ended "
        f"QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY took_s DESC) = 1"
    )
    if connection.execute("SELECT count(*) FROM unfinished").fetchone()[0]:
        connection.execute(
            f"DELETE FROM unfinished u USING (SELECT {keys} FROM told WHERE ended) l WHERE {same}"
        )


def packed_files(folder: Path) -> list[Path]:
    """Parquet files in a job's folder of traces."""
    return sorted(folder.glob("day=*/rank=*/*.parquet"))


def _listed(paths: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, paths))}]"


def _text(said: str) -> str:
    return "'" + said.replace("'", "''") + "'"


def write_rows(file: Any, blocks: Iterable[Block]) -> int:
    """Each block's spans as lines of CSV; how many."""
    writer, count = csv.writer(file), 0
    for block in blocks:
        day = datetime.fromtimestamp(block.wall_s, UTC).strftime("%Y-%m-%d")
        job, error, whole = block.job, f"{block.error_s:.6f}", int(block.whole)
        writer.writerows(
            (
                job, day, s.rank, s.attempt, s.node, s.kind, s.name, s.group, s.number, s.step,
                f"{s.start_s:.6f}", f"{s.took_s:.6f}", f"{s.waited_s:.6f}", int(s.ended), error,
                whole,
                block.submitted_s,
            )
            for s in block.spans
        )  # fmt: skip
        count += len(block.spans)
    return count
