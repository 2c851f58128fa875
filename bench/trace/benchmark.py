"""The benchmark of traces, part by part. Called by `bench.main`."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from holdfast.bench.figures import Incomplete, Try
from holdfast.bench.restart.systems import free_port
from holdfast.bench.trace import fleet, hours

SCRIPT = Path(__file__).with_name("script.py")
PAIRS, STEPS, WIDTH = 20, 20, 512
LITTLE_STEPS, LITTLE_WIDTH = 150, 8
STEP_TIMES_S = (0.05, 1.0, 10.0)
RANKS, SUMMARIES = 12_288, 60
DAY_RANKS, SPANS_AN_HOUR = 32, 15_000

Take = Callable[[Try], None]
Say = Callable[[str], None]


def measure(rounds: int, take: Take, say: Say, *, quick: bool, only: str) -> None:
    """All parts, or those whose names have `only` in them. Raises `Incomplete`."""
    parts: dict[str, Callable[[], None]] = {
        "steps with spans and without, in turns": lambda: _steps(take, pairs=4 if quick else PAIRS),
        "octets of a rank's hour": lambda: _hours(take, hours_each=0.05 if quick else 1.0),
        "packing on one core": lambda: _packing(take, ranks=64 if quick else RANKS),
        "questions about a day": lambda: _day(take, ranks=2 if quick else DAY_RANKS),
    }
    for number in range(rounds):
        for named, part in parts.items():
            if only in named:
                say(f"round {number + 1} of {rounds}: {named}")
                part()


def _steps(take: Take, pairs: int) -> None:
    """Of a step that computes little the difference shows: it is the same spans."""
    training, little = _pairs(pairs, STEPS, WIDTH), _pairs(pairs, LITTLE_STEPS, LITTLE_WIDTH)
    for named, found in (("a step", training), ("a step that computes little", little)):
        for wall_off, cpu_off, wall_on, cpu_on in found:
            for said, off, on in (("wall", wall_off, wall_on), ("CPU", cpu_off, cpu_on)):
                _take(take, f"{named}, {said}", "ms", off)
                _take(take, f"added to {named}, {said}", "us", 1e3 * (on - off))
    added_ms = median(cpu_on - cpu_off for _, cpu_off, _, cpu_on in little)
    share = added_ms / median(cpu_off for _, cpu_off, _, _ in training)
    _take(take, "added to a step that computes little, as a share of a step, CPU", "%", 100 * share)


def _pairs(pairs: int, steps: int, width: int) -> list[tuple[float, float, float, float]]:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        words = [folder, str(free_port()), str(pairs), str(steps), str(width)]
        asked = [sys.executable, str(SCRIPT), *words]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise Incomplete(f"the rank ended with exit code {done.returncode}: {last}")
    found = []
    for line in done.stdout.splitlines():
        wall_off, cpu_off, wall_on, cpu_on = map(float, line.split())
        found.append((wall_off, cpu_off, wall_on, cpu_on))
    return found


def _hours(take: Take, hours_each: float) -> None:
    for step_s in STEP_TIMES_S:
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
            octets, spans, written = hours.octets(Path(folder), step_s, hours_each)
        named = f"a rank's hour of {step_s:g} s steps"
        _take(take, f"{named}, sampled", "KB", octets / 1e3 / hours_each)
        _take(take, f"{named}, spans kept", "%", 100 * spans / written)
        _take(take, f"{named}, a span", "octets", octets / spans)


def _packing(take: Take, ranks: int) -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        place = Path(folder)
        octets = fleet.blocks(place, ranks, SUMMARIES)
        cpu_s, spans = fleet.pack(place)
    named = f"{ranks:,} ranks' steps"
    _take(take, f"{named}, a step of all packed, CPU", "ms", 1e3 * cpu_s / SUMMARIES)
    _take(take, f"{named}, spans packed a second of CPU", "", spans / cpu_s)
    _take(take, f"{named}, a step's span in a block", "octets", octets / spans)


def _day(take: Take, ranks: int) -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        place = Path(folder)
        rows = fleet.day(place, ranks, SPANS_AN_HOUR)
        for named, took_s in fleet.answers(place):
            _take(
                take,
                f"{named}, a day of {ranks} ranks, {rows / 1e6:.1f} million spans",
                "s",
                took_s,
            )


def _take(take: Take, figure: str, unit: str, value: float) -> None:
    take(Try(system="holdfast", figure=figure, unit=unit, value=value))
