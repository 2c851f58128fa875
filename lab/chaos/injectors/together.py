"""Faults together, or later: two at once, drawn of many, neither of which waits for the other."""

import time
from collections.abc import Sequence
from random import Random

from msgspec.structs import replace

from holdfast.lab.chaos.injectors import Done, Injector
from holdfast.lab.cluster import Lab

COMES_WITHIN_S = 300.0
WITHIN_S = 1.0
"""Between the two at most, a good deal less than a recovery takes."""


def drawn(pool: Sequence[Injector]) -> Injector:
    """Two of the pool, which may be the same fault to two victims. Either may be found first."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        first, second = rng.choices(pool, k=2)
        done = first(lab, job, rng)
        time.sleep(rng.uniform(0.0, WITHIN_S))
        then = second(lab, job, rng)
        hurt = filter(None, (*done.also, then.node, *then.also))
        also = tuple(dict.fromkeys(node for node in hurt if node != done.node))
        said = f"{done.said}, and {then.said}"
        return replace(done, said=said, node=done.node or then.node, rank=None, also=also)

    return do


def all_of(*each: Injector) -> Injector:
    """One after the other, none of which has a victim that has to be found."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        done = [one(lab, job, rng) for one in each]
        return Done(said="; ".join(one.said for one in done), at_s=done[0].at_s)

    return do


def stored(then: Injector) -> Injector:
    """Once a checkpoint of the job's is in its store."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        lab.wait(job, lambda seen: bool(seen["stored_step"]), within_s=COMES_WITHIN_S)
        return then(lab, job, rng)

    return do


def after(step: int, then: Injector) -> Injector:
    """Once the job has come so far."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        lab.wait(job, lambda seen: (seen["step"] or 0) >= step, within_s=COMES_WITHIN_S)
        return then(lab, job, rng)

    return do
