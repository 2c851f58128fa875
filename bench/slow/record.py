"""Runs the ranks, reads their rings as a daemon does, and writes a trace."""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from holdfast.bench.slow.traces import row
from holdfast.daemon.samplers.progress import Progress

PERIOD_S, SAMPLE_S = 0.5, 0.1
STARTS_S = 300.0
ON_S, OFF_S = 25.0, 15.0
"""An episode of a slow rank, and the time until the next."""
SPIN = """
import time
while True:
    until_s = time.monotonic() + 3
    while time.monotonic() < until_s:
        pass
    time.sleep(4)
"""
"""A neighbour that takes a core for 3 of 7 seconds."""


def record(
    path: Path, *, ranks: int, seconds: float, work: int, neighbours: int, percents: list[float]
) -> None:
    pause = threading.Event()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-slow-")))
        file = stack.enter_context(path.open("w"))
        (folder / "rings").mkdir()
        script = str(Path(__file__).with_name("ranks.py"))
        stack.enter_context(_process([script, str(folder), str(ranks), str(work)]))
        for _ in range(neighbours):
            stack.enter_context(_process(["-c", SPIN]))
        progress, began_s, slow = Progress(folder / "rings"), None, (-1, 0.0)
        deadline_s = time.monotonic() + STARTS_S
        next_s = 0.0
        while began_s is None or time.monotonic() < began_s + seconds:
            now = time.monotonic()
            progress.sample(now)
            if now >= next_s:
                next_s = now + PERIOD_S
                seen = progress.ranks(now)
                if len(seen) == ranks and all(each.step > 3 for each in seen):
                    began_s = now if began_s is None else began_s
                    slow = _episode(folder, slow, now - began_s, ranks, percents)
                    print(json.dumps([now, *slow, list(map(row, seen))]), file=file, flush=True)
                elif began_s is None and now > deadline_s:
                    raise TimeoutError("the ranks do not train")
            pause.wait(SAMPLE_S)
        (folder / "stop").touch()


def _episode(
    folder: Path, before: tuple[int, float], at_s: float, ranks: int, percents: list[float]
) -> tuple[int, float]:
    """Who is slow now, and by how much; told to the ranks where that is new."""
    number, within_s = divmod(at_s, ON_S + OFF_S)
    slow = (-1, 0.0)
    if percents and within_s >= OFF_S:
        slow = (1 + int(number) % (ranks - 1), percents[int(number) % len(percents)])
    if slow != before:
        (folder / "slow").write_text(f"{slow[0]} {slow[1]}")
    return slow


@contextmanager
def _process(words: list[str]) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, *words])
    try:
        yield
    finally:
        process.kill()
        process.wait()
