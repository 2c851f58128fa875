"""The endurance benchmark: a run of each system, with faults. Called by `bench.main`."""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import mean, median

from holdfast.bench.figures import Incomplete, Try
from holdfast.bench.jobs import NODES, job_of
from holdfast.bench.restart.systems import Torchrun
from holdfast.lab.chaos import score, target
from holdfast.lab.chaos.injectors import Done, Injector, node, nothing, rank, store
from holdfast.lab.chaos.scenario import Expected
from holdfast.lab.chaos.target import NotThere
from holdfast.lab.cluster import Lab, TooLate
from holdfast.lab.emulator.namespaces import Kind

SCRIPT = Path(__file__).with_name("script.py")
JOB = "endurance"
STEP_S = 0.1
LAUNCH_WITHIN_S = 120.0
LONGER = 5
"""A run that takes so many times as long as it should is given up."""
NO_STEP = 5
"""What takes so many times as long as the median step is a recovery."""
OURS, OTHER = "holdfast", Torchrun().name

FAULTS: dict[str, Injector] = {
    "rank": rank.signalled(signal.SIGKILL),
    "node": node.lost,
    "store": store.down_and(nothing),
}
"""In turn."""
ACTED = Expected(names_node=False, may_evict=True)


def measure(
    rounds: int,
    take: Callable[[Try], None],
    say: Callable[[str], None],
    *,
    every_s: float = 60.0,
    faults: int = 6,
) -> None:
    """Raises `Incomplete`."""
    names = [list(FAULTS)[nth % len(FAULTS)] for nth in range(faults)]
    steps = int((faults + 1) * every_s / STEP_S)
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as root:
            for system, played in ((OURS, _ours), (OTHER, _torchrun)):
                try:
                    folder = _new(Path(root).resolve(), system)
                    for one in _tries(system, played, folder, steps, names, every_s):
                        say(f"{one.system}: {one.figure}: {one.value:.2f} {one.unit}")
                        take(one)
                except (TooLate, NotThere) as error:
                    raise Incomplete(f"{system}: {error}") from error


Played = Callable[[Path, int, Sequence[str], float], tuple[float, float | None]]
"""In a folder, so many steps, with these faults, so far apart: how long it took from its first step
to its last one, and how long the faults took to be found, both in seconds. None: it does not tell.
"""


def _tries(
    system: str, played: Played, folder: Path, steps: int, names: Sequence[str], every_s: float
) -> Iterator[Try]:
    hurt_s, found_s = played(folder, steps, names, every_s)
    alone_s = steps * usual_s((folder / "steps").read_text())
    yield Try(system=system, figure="alone, at the pace of its steps", value=alone_s)
    yield Try(system=system, figure="with faults", value=hurt_s)
    if found_s is not None:
        yield Try(system=system, figure="until faults were found", value=found_s)
    ratio = hurt_s / (alone_s + (found_s or 0.0))
    yield Try(system=system, figure="times what it has to take", unit="", value=ratio)


def usual_s(lines: str) -> float:
    """How long a step takes, of lines of a step and its time, without those that a fault is in.

    In the same run: on a shared machine another one, without faults, may have been twice as slow.
    """
    times = [float(line.split()[1]) for line in lines.splitlines()]
    took = [after - before for before, after in pairwise(times)]
    limit = NO_STEP * median(took)
    return mean(each for each in took if each < limit)


def _new(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir()
    return folder


# ---------------------------------------------------------------- ours


def _ours(folder: Path, steps: int, names: Sequence[str], every_s: float) -> tuple[float, float]:
    """On two nodes; for each that is to be lost another one stands by."""
    spare = max(1, sum(name == "node" for name in names))
    with Lab(folder / "lab", nodes=NODES, standbys=spare, kind=Kind.LOOPBACK) as lab:
        lab.ready(within_s=LAUNCH_WITHIN_S)
        checkpoint = {"memoryIntervalSteps": 1, "storeIntervalSteps": 10}
        script = (str(SCRIPT), *words(folder, steps))
        lab.submit(job_of(JOB, folder, *script, standbys=1, checkpoint=checkpoint))
        began_s = _first_step(folder)
        done = [_hurt(lab, name, began_s + nth * every_s) for nth, name in enumerate(names, 1)]
        took_s = _ended(folder, steps) - began_s
        ended = lab.finished(JOB, within_s=LAUNCH_WITHIN_S)
        if ended["phase"] != "Succeeded":
            raise TooLate(f"the job ended as {ended['phase']}: {ended['why']}")
        return took_s, sum(_found_s(lab, each) for each in done if each.node is not None)


def _hurt(lab: Lab, name: str, at_s: float) -> Done:
    time.sleep(max(0.0, at_s - time.monotonic()))
    return FAULTS[name](lab, JOB, Random(name))


def _found_s(lab: Lab, done: Done) -> float:
    """Until the journal has what was decided on it."""
    story = lab.story(JOB)["lines"]
    incidents = score.answering(done, lab.incidents(JOB), story)
    return score.detected_s(ACTED, done, incidents, story) or 0.0


# ---------------------------------------------------------------- torchrun


def _torchrun(folder: Path, steps: int, names: Sequence[str], every_s: float) -> tuple[float, None]:
    """On one node, whose ranks alone are hurt: who replaces a node, or a store, is not its."""
    with Torchrun().script(folder, SCRIPT, *words(folder, steps)):
        began_s = _first_step(folder)
        for nth, _ in enumerate(names, 1):
            time.sleep(max(0.0, began_s + nth * every_s - time.monotonic()))
            os.kill(_writer(folder), signal.SIGKILL)
        return _ended(folder, steps) - began_s, None


def _writer(folder: Path) -> int:
    """A rank: a process whose command is the script, in this folder."""
    words = f"{SCRIPT}\0{folder}\0".encode()

    def found() -> int | None:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = path.read_bytes()
            except OSError:
                continue
            if words in command and b"torch.distributed.run" not in command:
                return int(path.parent.name)
        return None

    return target.wait_for(found, "a rank of torchrun", LAUNCH_WITHIN_S)


# ---------------------------------------------------------------- both


def words(folder: Path, steps: int) -> tuple[str, ...]:
    """What follows the script in a command."""
    return str(folder), str(steps), str(STEP_S)


def _first_step(folder: Path) -> float:
    def found() -> float | None:
        try:
            return float((folder / "steps").read_text().split()[1])
        except (FileNotFoundError, IndexError):
            return None

    return target.wait_for(found, "its first step", LAUNCH_WITHIN_S)


def _ended(folder: Path, steps: int) -> float:
    def found() -> float | None:
        try:
            return float((folder / "ended").read_text())
        except (FileNotFoundError, ValueError):
            return None

    return target.wait_for(found, "its last step", LONGER * (steps * STEP_S + LAUNCH_WITHIN_S))
