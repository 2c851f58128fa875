"""Packing of 12,288 ranks' steps on one core, and questions about a day of spans.

Called by `benchmark`. The ranks are made up; blocks, files and DuckDB are those of the product.
"""

import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.traces import packed, tables
from holdfast.traces.block import Block, encode
from holdfast.traces.model import Span
from holdfast.traces.segments import segments
from holdfast.traces.sinks import Place
from holdfast.traces.sinks.files import FileSink

RANKS_A_NODE = 8
DAY_S, WALL_S = 86_400, 1_800_000_000
QUESTIONS = {
    "slow ranks": """SELECT rank, node, avg(own_s) AS own_s FROM steps WHERE ended
        GROUP BY ALL ORDER BY own_s DESC LIMIT 10""",
    "minute by minute": """SELECT floor(start_s / 60) AS minute, median(took_s), max(took_s)
        FROM steps GROUP BY minute ORDER BY minute""",
    "where time goes": "SELECT kind, sum(took_s) FROM spans GROUP BY kind",
    "last into collectives": """SELECT last_rank, count(*) AS times FROM collectives
        WHERE ranks > 1 GROUP BY ALL ORDER BY times DESC LIMIT 10""",
    "one rank's ten seconds": """SELECT start_s, took_s, kind FROM spans
        WHERE rank = 1 AND start_s BETWEEN 40000 AND 40010 ORDER BY start_s""",
}


def blocks(folder: Path, ranks: int, steps: int) -> int:
    """Write those of a job's nodes; their octets."""
    sink, total = FileSink(), 0
    for node in range(ranks // RANKS_A_NODE):
        data = encode(_block(node, steps))
        name = f"node-{node}"
        sink.put(Place(folder, "job", 1, name, 60.0), data)
        total += len(data)
    return total


def _block(node: int, steps: int) -> Block:
    own = range(node * RANKS_A_NODE, (node + 1) * RANKS_A_NODE)
    name = f"node-{node}"
    spans = [
        Span(
            rank=rank,
            attempt=1,
            node=name,
            kind="step",
            step=step,
            start_s=10.0 * step + rank * 37 % 101 / 1e3,
            took_s=10.0 + rank * step % 977 / 1e4,
            waited_s=1.0 + rank * step % 613 / 1e3,
        )
        for rank in own
        for step in range(1, steps + 1)
    ]
    fields = {"job": "job", "node": name, "submitted_s": 0.0, "error_s": 0.0001}
    return Block(**fields, wall_s=WALL_S, dropped=0, whole=False, spans=spans)  # type: ignore[arg-type]


def pack(folder: Path) -> tuple[float, int]:
    """Seconds of CPU to make Parquet of all there is, on one core; spans."""
    began_s = time.process_time()
    done = packed.pack(folder, everything=True, threads=1)
    assert not segments(folder)
    return time.process_time() - began_s, done.spans


def day(folder: Path, ranks: int, spans_an_hour: int) -> int:
    """A day of sampled spans as Parquet; how many rows."""
    rows = ranks * 24 * spans_an_hour
    connection = tables.connected()
    per_rank = rows // ranks
    made = f"""
        SELECT 'job' AS job, DATE '2027-01-15' AS day, (i // {per_rank})::INTEGER AS rank,
            1 AS attempt, 'node-' || (rank // 8) AS node,
            ['step','forward','backward','collective','optimizer'][1 + i % 5] AS kind,
            CASE i % 5 WHEN 3 THEN 'all_reduce' ELSE '' END AS name,
            CASE i % 5 WHEN 3 THEN 7 ELSE 0 END::UBIGINT AS grp,
            CASE i % 5 WHEN 3 THEN i % {per_rank} // 5 ELSE 0 END::UINTEGER AS number,
            (i % {per_rank} // 5)::UINTEGER AS step,
            (i % {per_rank}) * {DAY_S / per_rank} + random() / 100 AS start_s,
            0.5 + random() / 10 AS took_s, random() / 10 AS waited_s, true AS ended,
            0.0001 AS error_s, false AS whole, 0.0 AS submitted_s
        FROM range({rows}) r(i)"""
    folder.mkdir(parents=True, exist_ok=True)
    connection.execute(
        f"COPY ({made}) TO '{folder}' (FORMAT parquet, COMPRESSION zstd, "
        "PARTITION_BY (day, rank), FILENAME_PATTERN 'made_{i}', OVERWRITE_OR_IGNORE)"
    )
    connection.close()
    return rows


def answers(folder: Path) -> Iterator[tuple[str, float]]:
    """Each question, and seconds of wall time until its answer, opening the tables included."""
    for named, sql in QUESTIONS.items():
        began_s = time.perf_counter()
        with tables.tables([folder]) as opened:
            _, rows = opened.ask(sql)
        assert rows, named
        yield named, time.perf_counter() - began_s
