"""The detection benchmark: each fault under each system, turn by turn.

Called by `bench.main`. torchrun finds no standstill itself: its ranks end by the timeout of their
process group, which is 30 min for gloo by default, and may be set by who knows how long a healthy
collective may take. Both are measured, the second with `TUNED_S`.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from holdfast.bench.detection import turns
from holdfast.bench.figures import Try
from holdfast.bench.recovery.benchmark import Turn, played, told
from holdfast.bench.recovery.systems import Holdfast, System, Torchrun

TUNED_S = 10
"""A timeout of collectives that a bold user sets: every save or evaluation of one rank alone has to
be shorter."""


class Tuned(Torchrun):
    """torchrun, with a script that sets a short timeout."""

    name = f"torchrun, timeout {TUNED_S} s"


def measure(
    rounds: int, take: Callable[[Try], None], say: Callable[[str], None], *, faults: Sequence[str]
) -> None:
    """Play all turns, each in a fresh folder that is removed afterwards."""
    plan = [(number, turn) for number in range(rounds) for turn in round_of(number, faults)]
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as root:
        for place, (number, turn) in enumerate(plan, 1):
            say(f"{place}/{len(plan)}  round {number + 1}: {turn.system}, {turn.what}")
            folder = Path(root).resolve() / f"turn-{place}"
            folder.mkdir()
            for one in played(turn, folder):
                take(one)
                say(told(one))


def round_of(number: int, faults: Sequence[str]) -> Iterator[Turn]:
    """The turns of a round; which system goes first changes from round to round."""
    systems: list[tuple[System, tuple[str, ...]]]
    systems = [(Torchrun(), ()), (Tuned(), (str(TUNED_S),)), (Holdfast(), ())]
    first = number % len(systems)
    for name in faults:
        fault, rank = turns.FAULTS[name], turns.drawn_rank(number)
        for system, words in (*systems[first:], *systems[:first]):
            play = partial(turns.held_up, system, fault=fault, rank=rank, words=words)
            yield Turn(system.name, fault.title, play)
