"""`holdfast bench evidence`: simulated cases, played by the driver and by oracles beside it.

Called by the command line. Each case is played in processes of their own, one a core, which have
the sources of one driver on their path: today's, or an earlier commit's with today's worlds.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from holdfast.bench.evidence.goals import Goal, goals
from holdfast.bench.evidence.rows import CLOCKED, ORACLE, Row, compared, row
from holdfast.bench.figures import Incomplete
from holdfast.bench.trees import SOURCES, trees
from holdfast.lab.simulator.cases.books import Life
from holdfast.lab.simulator.cases.drawing import CAUSES
from holdfast.protocol import exitcodes

SCRIPT = Path(__file__).resolve().parent / "played.py"
CASES = tuple(CAUSES)
CORES = os.cpu_count() or 1

Played = tuple[list[Life], float]
"""Lives, and the seconds of CPU that they took."""


def run(*, cases: Sequence[str], seeds: int, before: str, as_json: bool) -> int:
    """Play, and print the table or one line of JSON; the exit code."""
    progress, rows = Console(stderr=True), list[Row]()
    code = exitcodes.OK
    try:
        measure(cases, seeds, before, rows.extend, lambda what: progress.print(what, markup=False))
    except KeyboardInterrupt:
        progress.print(f"interrupted after {len(rows)} rows; nothing is left running")
        code = exitcodes.INTERRUPTED
    except Incomplete as reason:
        progress.print(f"ended after {len(rows)} rows: {reason}", markup=False)
        code = exitcodes.FAILED
    aims = goals(rows)
    if as_json:
        print(msgspec.json.encode({"seeds": seeds, "rows": rows, "goals": aims}).decode())
    elif rows:
        show(Console(width=max(WIDTH, Console().width)), rows, aims)
    return code


def measure(
    cases: Sequence[str],
    seeds: int,
    before: str,
    take: Callable[[Sequence[Row]], None],
    say: Callable[[str], None],
) -> None:
    """The rows of each case, the oracles' first. Raises `Incomplete`."""
    with systems_beside(before) as systems, _pool() as pool:
        for number, case in enumerate(cases):
            say(f"{case}: case {number + 1} of {len(cases)}, {seeds:,} seeds")
            played = _played(pool, case, seeds, systems)
            take([_row(case, system, played) for system in played])


@contextmanager
def _pool() -> Iterator[ThreadPoolExecutor]:
    """A process for each core. What waits for one when it is left is not begun."""
    pool = ThreadPoolExecutor(CORES)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _row(case: str, system: str, played: Mapping[str, Played]) -> Row:
    lives, cpu_s = played[system]
    own = row(case, system, lives, cpu_s)
    oracle, clocked = (compared(lives, played[each][0]) for each in (ORACLE, CLOCKED))
    return msgspec.structs.replace(
        own,
        times_oracle=oracle.median,
        times_oracle_in_all=oracle.in_all,
        times_clocked=clocked.median,
    )


def _played(
    pool: ThreadPoolExecutor, case: str, seeds: int, systems: Mapping[str, Path]
) -> dict[str, Played]:
    many = -(-seeds // CORES)  # a process costs half a second before it plays
    starts = range(0, seeds, many)
    asked = {
        system: [
            pool.submit(_play, system, sources, case, first, min(many, seeds - first))
            for first in starts
        ]
        for system, sources in systems.items()
    }
    found = {system: [each.result() for each in parts] for system, parts in asked.items()}
    return {
        system: ([life for lives, _ in parts for life in lives], sum(cpu_s for _, cpu_s in parts))
        for system, parts in found.items()
    }


def _play(system: str, sources: Path, case: str, first: int, count: int) -> Played:
    """What the script printed. Raises `Incomplete`."""
    player = system if system in (ORACLE, CLOCKED) else "driver"
    command = [sys.executable, str(SCRIPT), player, case, str(first), str(count)]
    done = subprocess.run(
        command,
        env={"PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise Incomplete(f"{case} with {system}, seeds from {first}: {last}")
    *lives, cost = done.stdout.splitlines()
    return [msgspec.json.decode(line, type=Life) for line in lives], json.loads(cost)["cpu_s"]


@contextmanager
def systems_beside(before: str) -> Iterator[dict[str, Path]]:
    """The sources that each system is played with. An earlier driver plays today's cases, by the
    simulator's driver of its own time: else no effect of its core could get another name.
    """
    with trees(before) as known:
        if before:
            simulator = (known[before] / "holdfast" / "lab" / "simulator").resolve()
            cases = simulator / "cases"
            shutil.rmtree(cases, ignore_errors=True)
            cases.symlink_to(SOURCES.parent / "lab" / "simulator" / "cases")
        yield {ORACLE: SOURCES, CLOCKED: SOURCES, **known}


HEADINGS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("right", lambda row: f"{row.right_percent:.1f}"),
    ("named", lambda row: f"{row.named_percent:.1f}"),
    ("faults", lambda row: f"{row.faults:.1f}"),
    ("out", lambda row: f"{row.innocents_quarantined}"),
    ("moved", lambda row: f"{row.innocents_moved_a_fault:.3f}"),
    ("moves", lambda row: f"{row.moves:.2f}"),
    ("lost", lambda row: f"{row.lost_median_s:.0f}"),
    ("p90", lambda row: f"{row.lost_p90_s:.0f}"),
    ("times", lambda row: _times(row.times_oracle)),
    ("in all", lambda row: _times(row.times_oracle_in_all)),
    ("times c", lambda row: _times(row.times_clocked)),
    ("CPU", lambda row: f"{row.cpu_ms:.0f}"),
)
LEGEND = """right, named: % that ended as they should, and whose cause was named. out: innocents
quarantined, in all lives; moved: innocents moved a fault. faults, moves: a life. lost, p90: virtual
seconds against an undisturbed life, median and 90th percentile; times: the oracle's, in the median
of the curable lives that came right for both, and in all of them; times c: in the median, of the
oracle that is told how often each cause strikes. CPU: ms a life."""
WIDTH = 120
"""Of the table, where nobody looks at a terminal."""


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def show(console: Console, rows: Sequence[Row], aims: Sequence[Goal]) -> None:
    """A table, what its columns are, and the goals."""
    lives = max(row.lives for row in rows)
    table = Table(title=f"{lives:,} simulated lives a case", box=None, padding=(0, 1))
    for heading in ("case", "by"):
        table.add_column(heading, no_wrap=True)
    for heading, _ in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for each in rows:
        table.add_row(each.case, each.system, *(told(each) for _, told in HEADINGS))
    console.print(table, LEGEND, sep="\n", highlight=False)
    for aim in aims:
        missed = f": {', '.join(aim.missed_by)}" if aim.missed_by else ""
        verdict = "met" if aim.met else "MISSED"
        console.print(f"{aim.system}: {verdict}, {aim.what}{missed}", highlight=False)
