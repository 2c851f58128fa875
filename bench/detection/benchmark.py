"""The detection benchmark: each fault under each system, turn by turn.

Called by `bench.main`. torchrun finds no standstill itself: its ranks end by the timeout of their
process group, which is 30 min for gloo by default, and may be set by who knows how long a healthy
collective may take. Both are measured, the second with `TUNED_S`.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from holdfast.bench.detection import turns
from holdfast.bench.figures import Try
from holdfast.bench.restart.benchmark import Turn, play_all
from holdfast.bench.restart.systems import Holdfast, System, Torchrun
from holdfast.bench.restart.turns import drawn_rank

TUNED_S = 10
"""A timeout of collectives that a bold user sets: every save or evaluation of one rank alone has to
be shorter."""


class Tuned(Torchrun):
    """torchrun, with a script that sets a short timeout."""

    name = f"torchrun, timeout {TUNED_S} s"


def measure(
    rounds: int, take: Callable[[Try], None], say: Callable[[str], None], *, faults: Sequence[str]
) -> None:
    """Play all turns of these faults."""
    rows = [(number, turn) for number in range(rounds) for turn in round_of(number, faults)]
    play_all(rows, take, say)


def round_of(number: int, faults: Sequence[str]) -> Iterator[Turn]:
    """The turns of a round; which system goes first changes from round to round."""
    systems: list[tuple[System, tuple[str, ...]]]
    systems = [(Torchrun(), ()), (Tuned(), (str(TUNED_S),)), (Holdfast(), ())]
    first = number % len(systems)
    for name in faults:
        fault, rank = turns.FAULTS[name], drawn_rank(number)
        for system, words in (*systems[first:], *systems[:first]):
            play = partial(turns.held_up, system, fault=fault, rank=rank, words=words)
            yield Turn(system.name, fault.title, play)
