"""`holdfast bench rendezvous`: addresses of many clients, and the store operations of their groups.

Called by `bench.main`. Ours is the store on a Redis that is started for it; beside it torch's
TCPStore as gloo asks it and as we have it asked, and sockets with nothing between.
"""

from collections.abc import Callable, Iterator, Sequence

from holdfast.bench.figures import Incomplete, Try
from holdfast.bench.main import OURS
from holdfast.bench.rendezvous import counted, standing, tcp
from holdfast.kit.limits import raise_open_files
from holdfast.lab.redis import NotInstalled, running_redis

BARE, TORCH, OURS_ON_TCP = "bare sockets", "torch TCPStore", "holdfast on a TCPStore"
MOST_ONE_BY_ONE = 512
"""Clients that ask for one address after the other: 2,048 of them do it 8 million times."""
SPARE_FILES = 200


def measure(
    rounds: int,
    take: Callable[[Try], None],
    say: Callable[[str], None],
    *,
    clients: Sequence[int],
    counts: Sequence[int],
) -> None:
    """Raises `Incomplete` where there is no Redis, or fewer files may be open than are needed."""
    most = raise_open_files()
    if most < 2 * max(clients) + SPARE_FILES:
        raise Incomplete(f"{max(clients):,} clients need more open files than the {most:,} allowed")
    _count(take, say, counts)
    try:
        with running_redis() as server:
            for turn in range(1, rounds + 1):
                for number in clients:
                    for system, seconds in _ways(server.url, number, turn):
                        say(f"round {turn} of {rounds}: {number:,} clients, {system}")
                        figure = f"{number:,} clients know all addresses, from the last arrival"
                        take(Try(system=system, figure=figure, value=seconds()))
    except NotInstalled as missing:
        raise Incomplete(str(missing)) from missing


def _count(take: Callable[[Try], None], say: Callable[[str], None], counts: Sequence[int]) -> None:
    for ranks in counts:
        for system, wrapped in ((OURS, True), (TORCH, False)):
            say(f"counting: all groups of {ranks:,} ranks, {system}")
            figure = f"store operations a rank, all groups of {ranks:,} ranks"
            value = counted.operations(ranks, wrapped)
            take(Try(system=system, figure=figure, unit="", value=value))


def _ways(url: str, number: int, turn: int) -> Iterator[tuple[str, Callable[[], float]]]:
    yield BARE, lambda: standing.bare(number)
    yield OURS, lambda: standing.ours(url, number, turn)
    yield OURS_ON_TCP, lambda: tcp.seconds(number, tcp.at_once)
    if number <= MOST_ONE_BY_ONE:
        yield TORCH, lambda: tcp.seconds(number, tcp.one_by_one)
