"""`holdfast trace ls`: which jobs of a run have traces, of how long, and how many octets."""

from pathlib import Path
from typing import Any

from holdfast.cli.output import as_json, table
from holdfast.cli.shared import Json, State
from holdfast.cli.trace import shared
from holdfast.page.words import duration, size
from holdfast.protocol.paths import RunPaths


def ls(state: State = None, json: Json = False) -> None:
    """List jobs with traces: nodes, spans, from when to when, octets, and the clocks' error."""
    run = shared.root(state)
    rows = [_row(run, job) for job in shared.meant(run, None)]
    if json:
        as_json(rows)
    else:
        _show(rows)
    shared.say_troubles(trouble for row in rows for trouble in row["troubles"])


def _show(rows: list[dict[str, Any]]) -> None:
    heads = ("job", "nodes", "spans", "lost", "from", "to", "clocks", "size", "packed")
    table(
        heads,
        (
            (
                row["job"],
                row["nodes"],
                f"{row['spans']:,}",
                f"{row['dropped']:,}",
                duration(row["from_s"]),
                duration(row["to_s"]),
                f"{1e3 * row['clock_error_s']:.2f} ms",
                size(row["bytes"]),
                size(row["packed_bytes"]),
            )
            for row in rows
        ),
    )


def _row(run: Path, job: str) -> dict[str, Any]:
    from holdfast.traces.segments import Reading, segments
    from holdfast.traces.tables import packed_files

    folder, reading = RunPaths(run).traces(job), Reading()
    files = segments(folder)
    blocks = [block for each in files for block in reading.blocks(each.path)]
    spans = [span for block in blocks for span in block.spans]
    return {
        "job": job,
        "nodes": len({block.node for block in blocks}),
        "spans": len(spans),
        "dropped": sum(block.dropped for block in blocks),
        "from_s": min((span.start_s for span in spans), default=0.0),
        "to_s": max((span.start_s + span.took_s for span in spans), default=0.0),
        "clock_error_s": max((block.error_s for block in blocks), default=0.0),
        "bytes": sum(each.path.stat().st_size for each in files),
        "packed_bytes": sum(path.stat().st_size for path in packed_files(folder)),
        "troubles": reading.troubles,
    }
