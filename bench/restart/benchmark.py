"""The restart benchmark: all turns of all rounds, the systems one after the other in each.

Called by `bench.main`.
"""

import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from holdfast.bench.figures import Incomplete, Try
from holdfast.bench.restart import emulated, launch, turns, workload
from holdfast.bench.restart.systems import Holdfast, Nvrx, System, Torchrun


class Turn(NamedTuple):
    """One start of one system, and what is measured in it."""

    system: str
    what: str
    play: Callable[[Path], Iterator[Try]]


Plan = Sequence[tuple[int, Turn]]
"""Turns, each with the number of its round, from 0."""


def measure(
    rounds: int,
    take: Callable[[Try], None],
    say: Callable[[str], None],
    *,
    nvrx: str = "",
    only: str = "",
) -> None:
    """Play all turns. `nvrx`: a Python that has NVIDIA's resiliency extension; it is a third
    system then. `only`: turns whose names have this in them. Raises `Incomplete` where the
    extension is not there, or no such turn.
    """
    try:
        more = [Nvrx(nvrx)] if nvrx else []
    except LookupError as error:
        raise Incomplete(str(error)) from error
    every = [(number, turn) for number in range(rounds) for turn in round_of(number, more)]
    plan = [(number, turn) for number, turn in every if only in turn.what]
    if not plan:
        names = ", ".join(dict.fromkeys(turn.what for _, turn in every))
        raise Incomplete(f"--only {only!r}: no turn is called so. There are: {names}.")
    play_all(plan, take, say)


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


def round_of(number: int, more: Sequence[Nvrx] = ()) -> list[Turn]:
    """The turns of a round; which system goes first changes from round to round."""
    torchrun, ours = Torchrun(), Holdfast()
    both: list[System] = [torchrun, *more, ours] if number % 2 == 0 else [ours, *more, torchrun]
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
        Turn(torchrun.name, turns.LOST, partial(turns.torchrun_node_lost, torchrun)),
        *(
            Turn(each.name, turns.LOST, partial(turns.torchrun_node_lost_with_spare, each))
            for each in (torchrun, *more)
        ),
        Turn(ours.name, turns.LOST, partial(emulated.node_lost, seed=number)),
    ]
    found += [
        Turn(each.name, turns.BOTH, partial(turns.driver_and_rank_killed, each, rank=rank))
        for each in both
    ]
    found += [Turn(each.name, "launch", partial(launch.plain, each)) for each in both]
    found += [Turn(each.name, launch.COLD, partial(launch.cold, each)) for each in both]
    alone = [
        Turn(ours.name, launch.WARM, partial(launch.warm, ours)),
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
