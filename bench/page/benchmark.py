"""The pictures' benchmark: a page with 12,288 ranks in a headless browser. Called by `bench.main`.

A try a round: how soon the heat map is drawn (counted from the navigation, with nothing cached),
what a frame of a drag costs the page's main thread, by picture, and what scripts hold in memory
after a while of an answer a second. Then the same of a page of a real driver's process, with what
100 viewers cost that (`live.py`).
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.bench.figures import Incomplete, Try
from holdfast.bench.page import seen, served

RANKS = 12_288
"""The largest job of MegaScale (NSDI'24, 6.1)."""
RANKS_EACH = 8
LIVE = Path(__file__).resolve().with_name("live.py")
LIMIT_S = 300.0
"""For nodes to come and to train, and for the browser, beside the minutes that are asked for."""
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
    """Raises `Incomplete` with the last words of the script."""
    command = [sys.executable, str(LIVE), str(nodes), str(minutes)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S + 60 * minutes,
        )
    except subprocess.TimeoutExpired as error:
        why = f"a real driver with {nodes:,} nodes did not end within {error.timeout:.0f} s"
        raise Incomplete(why) from error
    for line in done.stdout.splitlines():
        told = json.loads(line)
        figure = f"real driver: {told['figure']}"
        take(Try(system="holdfast", figure=figure, unit=told["unit"], value=told["value"]))
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise Incomplete(f"a real driver with {nodes:,} nodes: {last}")


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
