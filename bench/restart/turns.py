"""One turn each: start a system on a fresh folder, hurt it from outside, time its way back.

Called by `benchmark`. Every time ends at the moment when the last rank has completed a step that
no rank had reached before, in a new process where the fault must have ended the old ones.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from holdfast.bench.figures import Try
from holdfast.bench.restart.guarded import Guarded
from holdfast.bench.restart.marks import RANKS, Marks, pid_writing, wait
from holdfast.bench.restart.systems import Holdfast, System, Torchrun, free_port, runs
from holdfast.protocol.paths import RunPaths

LAUNCH_WITHIN_S = 120.0
BACK_WITHIN_S = 60.0
WARM_STEPS = 20
"""Steps before a fault, so that nothing is still starting."""


LOST, BOTH = "node lost", "driver killed, then a rank"
LONG_S = 3 * BACK_WITHIN_S
"""What the loss of an agent may take."""


class NotStarted(Exception):
    """The system did not get the script to its first steps; the message says what was waited."""


def first_steps(marks: Marks, began_ns: int, system: str) -> Try:
    """Launch to the first step of all ranks; then waits until training is warm."""

    def at(step: int) -> bool:
        marks.read()
        return marks.common() >= step

    if not wait(lambda: at(1), within_s=LAUNCH_WITHIN_S):
        raise NotStarted(f"no step within {LAUNCH_WITHIN_S:g} s of the launch")
    first_ns = marks.all_beyond_ns(0)
    assert first_ns is not None, "all ranks have completed step 1"
    if not wait(lambda: at(WARM_STEPS), within_s=LAUNCH_WITHIN_S):
        raise NotStarted(f"no step {WARM_STEPS} within {LAUNCH_WITHIN_S:g} s of the first")
    return Try(system=system, figure="launch to first step", value=(first_ns - began_ns) / 1e9)


def back_again(
    marks: Marks, hurt_ns: int, figure: str, system: str, within_s: float = BACK_WITHIN_S
) -> Try:
    """The fault to the first new step of all ranks, all of them new processes."""
    old = marks.lives()
    found: list[int] = []

    def back() -> bool:
        marks.read()
        at_ns = marks.all_beyond_ns(marks.reached(old), without=old)
        found.extend([] if at_ns is None else [at_ns])
        return at_ns is not None

    if wait(back, within_s=within_s):
        return Try(system=system, figure=figure, value=(found[0] - hurt_ns) / 1e9)
    return Try(system=system, figure=figure, note=f"not back within {within_s:g} s")


def rank_signalled(
    system: System, folder: Path, *, rank: int, signal_number: signal.Signals, figure: str
) -> Iterator[Try]:
    """Launch; then a signal to one rank."""
    marks, began_ns = Marks(folder), time.monotonic_ns()
    with system.start(folder):
        yield first_steps(marks, began_ns, system.name)
        pid = pid_writing(marks.paths[rank])
        hurt_ns = time.monotonic_ns()
        os.kill(pid, signal_number)
        yield back_again(marks, hurt_ns, figure, system.name)
    if signal_number is signal.SIGSTOP and isinstance(system, Holdfast):
        right = system.named(folder) == rank
        yield Try(
            system=system.name, figure="rank stopped: right rank named", unit="share", value=right
        )


def driver_killed(system: Holdfast, folder: Path) -> Iterator[Try]:
    """SIGKILL to Holdfast's driver: training should not notice."""
    marks, began_ns = Marks(folder), time.monotonic_ns()
    with system.start(folder):
        yield first_steps(marks, began_ns, system.name)
        pid = driver_of(folder)
        before, hurt_ns = marks.common(), time.monotonic_ns()
        os.kill(pid, signal.SIGKILL)

        def went_on() -> bool:
            marks.read()
            return marks.common() >= before + 10 * WARM_STEPS

        if not wait(went_on, within_s=BACK_WITHIN_S):
            yield Try(system=system.name, figure="driver killed: longest pause", note="stood still")
            return
        pause_s, lost = marks.longest_pause_s(hurt_ns), marks.repeated()
        yield Try(system=system.name, figure="driver killed: longest pause", value=pause_s)
        yield Try(system=system.name, figure="driver killed: steps lost", unit="steps", value=lost)


def torchrun_node_lost(system: Torchrun, folder: Path) -> Iterator[Try]:
    """Two agents; the one that does not host the rendezvous vanishes with its ranks, and is
    started again at once, as an orchestrator would at its best."""
    marks, port = Marks(folder), free_port()
    with system.agent(folder, 0, port), _replaceable(system.agent(folder, 1, port)) as second:
        first_steps(marks, 0, system.name)
        hurt_ns = time.monotonic_ns()
        second[0].kill()
        second[0] = system.agent(folder, 1, port)
        yield back_again(marks, hurt_ns, LOST, f"{system.name}, agent started again", LONG_S)


def torchrun_node_lost_with_spare(system: Torchrun, folder: Path) -> Iterator[Try]:
    """The same, and a third agent waits: it takes the place, as a standby does."""
    marks, port = Marks(folder), free_port()
    with system.agent(folder, 0, port), system.agent(folder, 1, port) as second:
        first_steps(marks, 0, system.name)
        before = connections(port)
        with system.agent(folder, 2, port):
            if not wait(lambda: connections(port) > before, within_s=LAUNCH_WITHIN_S):
                raise NotStarted("the third agent did not ask to take part")
            hurt_ns = time.monotonic_ns()
            second.kill()
            yield back_again(marks, hurt_ns, LOST, f"{system.name}, an agent waits", LONG_S)


def connections(port: int) -> int:
    """How many are connected to a port of this machine (proc(5), `/proc/net/tcp`), by IPv6 too."""
    texts = [Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6")]
    rows = [line.split() for text in texts for line in text.splitlines()[1:]]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def driver_and_rank_killed(system: System, folder: Path, *, rank: int) -> Iterator[Try]:
    """SIGKILL to what watches the ranks, and at once to one of them."""
    marks = Marks(folder)
    with system.start(folder) as running:
        first_steps(marks, 0, system.name)
        pid, hurt_ns = pid_writing(marks.paths[rank]), time.monotonic_ns()
        driver = driver_of(folder) if isinstance(system, Holdfast) else running.child
        assert driver is not None, "its ranks have done steps"
        os.kill(driver, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        yield back_again(marks, hurt_ns, BOTH, system.name)


def driver_of(folder: Path) -> int:
    """The pid of the driver that `holdfast run` started."""
    (address,) = runs(folder).glob(f"*/{RunPaths(Path()).address.name}")
    return int(msgspec.json.decode(address.read_bytes())["pid"])


@contextmanager
def _replaceable(first: Guarded) -> Iterator[list[Guarded]]:
    """A place whose holder may change; the last holder is ended."""
    place = [first]
    try:
        yield place
    finally:
        place[0].end()


def drawn_rank(round_number: int) -> int:
    """Each rank in its turn, rank 0 among them."""
    return (round_number + 1) % RANKS
