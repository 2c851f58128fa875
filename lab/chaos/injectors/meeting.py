"""Fault 39: the Redis where ranks meet is killed."""

import time
from functools import partial
from random import Random

from msgspec.structs import replace

from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector
from holdfast.lab.chaos.stored import MetLab
from holdfast.lab.cluster import Lab
from holdfast.lab.emulator.inside import NotPossible
from holdfast.protocol.faults import Kind

TOLD_WITHIN_S = 60.0
AWAY_S = 5.0
"""Longer than a recovery takes."""


def redis_killed_and(other: Injector) -> Injector:
    """SIGKILL to the Redis; once that is told another fault is done, and it begins anew, empty."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        if not isinstance(lab, MetLab):
            raise NotPossible("it is done to a real Redis beside an emulated cluster")
        lab.server.stop()
        told = partial(_told, lab, job, Kind.RENDEZVOUS_AWAY)
        target.wait_for(told, "word that the Redis is away", TOLD_WITHIN_S)
        done = other(lab, job, rng)
        time.sleep(AWAY_S)
        lab.server.start()
        said = f"SIGKILL to the Redis where ranks meet, then {done.said}; back after {AWAY_S:g} s"
        return replace(done, said=said)

    return do


def _told(lab: Lab, job: str, kind: Kind) -> bool:
    return any(each["kind"] == kind for each in lab.incidents(job))
