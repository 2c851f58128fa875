"""Lists as files for other programs: CSV, JSON, and Parquet where DuckDB is installed.

Used by the commands that list. A value that is itself a list or a table is JSON in its cell.
"""

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.errors import Stopped, misused
from holdfast.protocol import exitcodes


class Format(StrEnum):
    """How a list is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


As = Annotated[
    Format,
    typer.Option("--format", help="For other programs; parquet goes to a file or a pipe: > FILE."),
]


def write(rows: Sequence[Mapping[str, Any]], form: Format) -> None:
    """All rows on stdout. Raises `Stopped` where that cannot be."""
    if form is Format.JSON:
        sys.stdout.write(json.dumps(list(rows), default=str) + "\n")
    elif form is Format.CSV:
        _csv(rows)
    else:
        _parquet(rows)
    sys.stdout.flush()


def flat(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each row with the same columns, in the order in which they are met; cells are plain."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: _cell(row.get(name)) for name in columns} for row in rows]


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict | tuple) else value


RISKY = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for a formula (OWASP, CSV Injection): such text gets a ' before it."""


def _csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """RFC 4180."""
    told = flat(rows)
    if not told:
        return
    writer = csv.DictWriter(sys.stdout, fieldnames=list(told[0]))
    writer.writeheader()
    for row in told:
        writer.writerow({name: _harmless(value) for name, value in row.items()})


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(RISKY) else value


def _parquet(rows: Sequence[Mapping[str, Any]]) -> None:
    try:
        import duckdb
    except ImportError:
        raise Stopped(
            "--format parquet: DuckDB is not installed, and writes it.",
            fix="Install it: pip install 'holdfast[trace]'; or use --format csv.",
            code=exitcodes.UNAVAILABLE,
        ) from None
    if sys.stdout.isatty():
        raise misused("--format parquet: this is a terminal.", "Send it into a file: > FILE")
    if not rows:
        raise Stopped("--format parquet: there is no row, so no column.")
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        source, made = Path(folder) / "rows.json", Path(folder) / "rows.parquet"
        source.write_text("\n".join(json.dumps(row) for row in flat(rows)))
        with duckdb.connect() as database:
            read = f"read_json('{source}', format = 'newline_delimited')"
            database.execute(f"COPY (SELECT * FROM {read}) TO '{made}' (FORMAT parquet)")
        sys.stdout.buffer.write(made.read_bytes())
