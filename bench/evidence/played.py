"""Plays seeds of one case, a line of JSON for each: `played.py PLAYER CASE FIRST COUNT`.

PLAYER is `driver`, the one whose sources are on the path, or one of the oracles, `oracle` and
`clocked`. The last line says what it cost: seconds of CPU.
"""

import sys
import time

import msgspec

from holdfast.lab.simulator.cases import play
from holdfast.lab.simulator.cases.oracle import play as oracle

PLAYERS = {"driver": play.play, "oracle": oracle.play, "clocked": oracle.play_clocked}


def main(player: str, case: str, first: str, count: str) -> None:
    begin_s = time.process_time()
    for seed in range(int(first), int(first) + int(count)):
        print(msgspec.json.encode(PLAYERS[player](case, seed)).decode())
    print(msgspec.json.encode({"cpu_s": time.process_time() - begin_s}).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
