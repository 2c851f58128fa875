"""The recovery benchmark: all turns of all rounds, the systems one after the other in each.

Called by `bench.main`.
"""

import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from holdfast.bench.figures import Try
from holdfast.bench.recovery import emulated, turns, workload
from holdfast.bench.recovery.systems import Holdfast, System, Torchrun


class Turn(NamedTuple):
    """One start of one system, and what is measured in it."""

    system: str
    what: str
    play: Callable[[Path], Iterator[Try]]


Plan = Sequence[tuple[int, Turn]]
"""Turns, each with the number of its round, from 0."""


def measure(rounds: int, take: Callable[[Try], None], say: Callable[[str], None]) -> None:
    """Play all turns."""
    play_all([(number, turn) for number in range(rounds) for turn in round_of(number)], take, say)


def play_all(plan: Plan, take: Callable[[Try], None], say: Callable[[str], None]) -> None:
    """Each turn in a fresh folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as root:
        for place, (number, turn) in enumerate(plan, 1):
            say(f"{place}/{len(plan)}  round {number + 1}: {turn.system}, {turn.what}")
            folder = Path(root).resolve() / f"turn-{place}"
            folder.mkdir()
            for one in played(turn, folder):
                take(one)
                say(told(one))


def round_of(number: int) -> list[Turn]:
    """The turns of a round; which system goes first changes from round to round."""
    torchrun, ours = Torchrun(), Holdfast()
    both: list[System] = [torchrun, ours] if number % 2 == 0 else [ours, torchrun]
    rank = turns.drawn_rank(number)
    found: list[Turn] = []
    for figure, signal_number in {
        "rank killed (SIGKILL)": signal.SIGKILL,
        "rank stopped (SIGSTOP)": signal.SIGSTOP,
    }.items():
        found += [
            Turn(
                system.name,
                figure,
                partial(
                    turns.rank_signalled,
                    system,
                    rank=rank,
                    signal_number=signal_number,
                    figure=figure,
                ),
            )
            for system in both
        ]
    lost = [
        Turn(torchrun.name, "node lost", partial(turns.torchrun_node_lost, torchrun)),
        Turn(ours.name, "node lost", partial(emulated.node_lost, seed=number)),
    ]
    alone = [
        Turn(ours.name, "driver killed", partial(turns.driver_killed, ours)),
        Turn(ours.name, "workload", partial(workload.rank_killed, ours)),
    ]
    return found + (lost if number % 2 == 0 else lost[::-1]) + alone


def played(turn: Turn, folder: Path) -> Iterator[Try]:
    """What a turn measured, or that it did not begin."""
    try:
        yield from turn.play(folder)
    except (turns.NotStarted, LookupError) as reason:
        yield Try(system=turn.system, figure=turn.what, note=str(reason))


def told(one: Try) -> str:
    """A measurement, for people who watch."""
    value = one.note if one.value is None else f"{one.value:.2f} {one.unit}"
    return f"    {one.figure}: {value}"
