"""Faults 1, 4 and 48: ranks are killed, or stopped in the middle of whatever they do."""

import os
import signal
import time
from random import Random

from msgspec.structs import replace

from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector
from holdfast.lab.cluster import Lab

RANKS = 4
BEGUN_WITHIN_S = 60.0
AFTER_S = 2.0
"""About as long as from a start to a first step here."""


def signalled(number: signal.Signals, rank: int | None = None) -> Injector:
    """Send `number` to one rank: the one given, or one drawn."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        pids = target.wait_for(lambda: target.rank_pids(lab, job), f"a rank of {job}", 10.0)
        victim = rank if rank is not None else rng.choice(sorted(pids))
        pid = pids[victim]
        node = target.node_of(lab, pid).name
        at_s = time.time()
        os.kill(pid, number)
        said = f"{number.name} to rank {victim} on {node}"
        return Done(said=said, node=node, rank=victim, at_s=at_s)

    return do


def stormed(times: int) -> Injector:
    """Kill a rank in each of the first attempts, some moment after they all have begun."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        done, before = list[Done](), dict[int, int]()
        for _ in range(times):
            before = _all_new(lab, job, before)
            time.sleep(rng.uniform(0.0, AFTER_S))
            done.append(signalled(signal.SIGKILL)(lab, job, rng))
        also = tuple({each.node for each in done if each.node and each.node != done[0].node})
        return replace(done[0], said="; ".join(each.said for each in done), also=also)

    return do


def _all_new(lab: Lab, job: str, before: dict[int, int]) -> dict[int, int]:
    """By rank the processes of an attempt of which none was there before, once all are."""

    def new() -> dict[int, int] | None:
        pids = target.rank_pids(lab, job)
        old = {*pids.values()} & {*before.values()}
        return pids if len(pids) == RANKS and not old else None

    return target.wait_for(new, f"all ranks of {job}", BEGUN_WITHIN_S)
