"""The telemetry benchmark: a collective with and without hooks. Called by `bench.main`."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from holdfast.bench.figures import Incomplete, Try
from holdfast.bench.restart.systems import free_port

SCRIPT = Path(__file__).with_name("script.py")
PAIRS, COUNT = 10, 2_000
"""Of each round: pairs, and collectives of each of their four parts."""
BARE, WATCHED = "a collective, CPU", "a collective with hooks, CPU"
ADDED = "added to a collective"
"""Two names: no ratio is printed, which would be theirs over ours, of the cost without hooks."""


def measure(rounds: int, take: Callable[[Try], None], say: Callable[[str], None]) -> None:
    """A process each round. Raises `Incomplete`."""
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}: {4 * PAIRS * COUNT:,} collectives of one rank")
        for bare_us, watched_us in _pairs():
            take(Try(system="without hooks", figure=BARE, unit="us", value=bare_us))
            take(Try(system="holdfast", figure=WATCHED, unit="us", value=watched_us))
            take(Try(system="holdfast", figure=ADDED, unit="us", value=watched_us - bare_us))


def _pairs() -> list[tuple[float, float]]:
    """Without and with hooks, in microseconds a collective."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        words = [str(SCRIPT), folder, str(free_port()), str(PAIRS), str(COUNT)]
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise Incomplete(f"the rank ended with exit code {done.returncode}: {last}")
    lines = (line.split() for line in done.stdout.splitlines())
    return [(float(bare), float(watched)) for bare, watched in lines]
