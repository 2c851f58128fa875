"""The pictures' benchmark: a page with 12,288 ranks in a headless browser. Called by `bench.main`.

A try a round: how soon the heat map is drawn (counted from the navigation, with nothing cached),
what a frame of a drag costs the page's main thread, by picture, and what scripts hold in memory
after a while of an answer a second. Then the same of a page of a real driver's process, with what
100 viewers cost that (`live.py`).
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from holdfast.bench.figures import Incomplete, Try
from holdfast.bench.page import seen, served

RANKS = 12_288
"""The largest job of MegaScale (NSDI'24, 6.1)."""
RANKS_EACH = 8
LIVE = Path(__file__).resolve().with_name("live.py")
LIMIT_S = 300.0
"""For nodes to come and to train, for turns of viewers and for the browser, beside the minutes that
are asked for."""
FIGURES = {
    "driver, 10 events a second: share of a core": "%",
    "driver, 100 viewers more: share of a core": "%",
    "first byte of the job's page": "ms",
    "full load of the job's page": "ms",
    "heat map drawn": "ms",
    "heat map: main thread's CPU a frame, mean": "ms",
    "heap at the begin": "MiB",
    "heap at the end": "MiB",
}
"""Of a real driver; one that does not come is told with why."""
SPANS_OF = 256
"""Ranks of which the timeline is given spans: it has no more lines."""
PANNED = ("heatmap", "timeline", "view3d")


def measure(
    rounds: int,
    take: Callable[[Try], None],
    say: Callable[[str], None],
    *,
    ranks: int = RANKS,
    minutes: float = 5.0,
) -> None:
    answers = served.Answers(ranks, slow=ranks // 3, spans=SPANS_OF)
    with served.served(answers) as url:
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}: {ranks:,} ranks")
            try:
                _round(url, take, say, minutes)
            except LookupError as error:
                raise Incomplete(str(error)) from error
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}: {ranks:,} ranks of a real driver")
        _live(ranks // RANKS_EACH, minutes, take)


def _live(nodes: int, minutes: float, take: Callable[[Try], None]) -> None:
    """What came in time, and why the rest did not."""
    command = [sys.executable, str(LIVE), str(nodes), str(minutes)]
    lines, why = _ran(command, LIMIT_S + 60 * minutes)
    left = {name: unit for name, unit in FIGURES.items() if minutes or name != "heap at the end"}
    for line in lines:
        told = json.loads(line)
        if "note" in told:
            why = why or told["note"]
            continue
        left.pop(told["figure"], None)
        _real(take, told["figure"], told["unit"], told["value"])
    for name, unit in left.items():
        _real(take, name, unit, None, note=f"{nodes:,} nodes: {why or 'it said nothing'}")


def _real(
    take: Callable[[Try], None], figure: str, unit: str, value: float | None, note: str = ""
) -> None:
    said = f"real driver: {figure}"
    take(Try(system="holdfast", figure=said, unit=unit, value=value, note=note))


def _ran(command: list[str], limit_s: float) -> tuple[list[str], str]:
    """Whole lines that it printed, and how it ended where that was not well. All that it started
    ends with it: it is the head of a group of its own."""
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True)
        try:
            process.wait(limit_s)
            why = ""
        except subprocess.TimeoutExpired:
            why = f"it did not end within {limit_s:.0f} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        err.seek(0)
        if process.returncode and not why:
            why = (err.read().strip().splitlines() or ["it said nothing"])[-1]
        return [line for line in out.read().splitlines(keepends=True) if line.endswith("\n")], why


def _round(
    url: str, take: Callable[[Try], None], say: Callable[[str], None], minutes: float
) -> None:
    def told(figure: str, unit: str, value: float) -> None:
        take(Try(system="holdfast", figure=figure, unit=unit, value=value))

    with seen.opened(viewport={"width": 1440, "height": 900}) as page:
        began_s = time.monotonic()
        page.goto(url)
        seen.drawn(page, "heatmap")
        told("heat map drawn", "ms", 1e3 * (time.monotonic() - began_s))
        for view in PANNED:
            seen.drawn(page, view)
            panned = seen.panned(page, view)
            told(f"{view}: script a frame, median", "ms", panned.median_ms)
            told(f"{view}: script a frame, longest", "ms", max(panned.script_ms))
            told(f"{view}: main thread's CPU a frame, mean", "ms", panned.main_ms)
        told("heap, drawn", "MiB", seen.heap_mib(page))
        if minutes:
            say(f"an answer a second for {minutes:g} min")
            page.wait_for_timeout(60_000 * minutes)
            told("heap, after a while", "MiB", seen.heap_mib(page))
