"""The count of leaks: a job on two nodes saves at every step, and its ranks are killed again and
again; what is there in the end beside what was there early on. Called by `bench.main`.
"""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from holdfast.bench.figures import Incomplete, Try
from holdfast.bench.jobs import NODES, RANKS, job_of
from holdfast.bench.leaks.counted import Counted, count, least
from holdfast.lab.chaos import target
from holdfast.lab.chaos.target import NotThere
from holdfast.lab.cluster import Lab, TooLate
from holdfast.lab.emulator.namespaces import Kind

SCRIPT = Path(__file__).with_name("script.py")
JOB = "leaks"
EARLY = 5
"""Restarts until the first count: by then all that is made once has been made."""
WITHIN_S = 120.0
REST_S = 2.0
"""By then the next ranks are forked ahead, and what the last ones left is gone."""
COUNTS, APART_S = 20, 0.1


def measure(
    rounds: int,
    take: Callable[[Try], None],
    say: Callable[[str], None],
    *,
    saves: int = 500,
    restarts: int = 50,
) -> None:
    """Raises `Incomplete`."""
    for number in range(rounds):
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
            try:
                for one in _round(Path(folder).resolve(), Random(number), say, saves, restarts):
                    take(one)
            except (TooLate, NotThere) as error:
                raise Incomplete(str(error)) from error


def _round(
    folder: Path, rng: Random, say: Callable[[str], None], saves: int, restarts: int
) -> Iterator[Try]:
    with Lab(folder / "lab", nodes=NODES, kind=Kind.LOOPBACK) as lab:
        lab.ready(within_s=WITHIN_S)
        # It saves to memory at each step, and often to another node and a store.
        saves_often = {"storeIntervalSteps": 10, "peerIntervalSteps": 5}
        lab.submit(job_of(JOB, folder, str(SCRIPT), str(folder), checkpoint=saves_often))
        early: Counted | None = None
        for nth in range(restarts):
            _go_on(folder, saves // restarts)
            if nth == min(EARLY, restarts - 1):
                early = _at_rest(lab)
            say(f"{nth + 1} of {restarts} restarts, step {_step(folder)}")
            _kill_a_rank(lab, rng)
        _go_on(folder, max(1, saves - _step(folder)))
        assert early is not None, "there is one restart at least"
        yield from _tries(early, _at_rest(lab))
        left = lab.leftovers()
    yield _try("processes left once all is over", lab.leftovers().count, "")
    assert left.count, "looking sees what is there"


def _kill_a_rank(lab: Lab, rng: Random) -> None:
    """SIGKILL to one, and wait until all are others."""
    before = _all_ranks(lab)
    os.kill(before[rng.choice(sorted(before))], signal.SIGKILL)
    target.wait_for(
        lambda: set(_all_ranks(lab).values()).isdisjoint(before.values()), "new ranks", WITHIN_S
    )


def _all_ranks(lab: Lab) -> dict[int, int]:
    def found() -> dict[int, int] | None:
        pids = target.rank_pids(lab, JOB)
        return pids if len(pids) == RANKS else None

    return target.wait_for(found, "all ranks", WITHIN_S)


def _go_on(folder: Path, steps: int) -> None:
    until = _step(folder) + steps
    target.wait_for(lambda: _step(folder) >= until, f"step {until}", WITHIN_S)


def _step(folder: Path) -> int:
    try:
        return int((folder / "step").read_text() or 0)
    except FileNotFoundError:
        return 0


def _at_rest(lab: Lab) -> Counted:
    """The least of several counts: what is open for a moment only is no leak."""
    time.sleep(REST_S)
    counts = []
    for _ in range(COUNTS):
        time.sleep(APART_S)
        counts.append(count(lab))
    return least(counts)


def _tries(early: Counted, late: Counted) -> Iterator[Try]:
    for name, after in late.of.items():
        before = early.of[name]
        yield _try(f"{name}: memory beside the slots", after.memory_mb, "MB")
        yield _try(f"{name}: more memory than early on", after.memory_mb - before.memory_mb, "MB")
        yield _try(f"{name}: more open files", after.files - before.files, "")
        yield _try(f"{name}: more threads", after.threads - before.threads, "")
    yield _try("processes: more than early on", late.processes - early.processes, "")
    yield _try("memory of nodes: more than early on", late.slots_mb - early.slots_mb, "MB")
    yield _try("memory of nodes: names that a kill left", late.left, "")


def _try(figure: str, value: float, unit: str) -> Try:
    return Try(system="holdfast", figure=figure, unit=unit, value=value)
