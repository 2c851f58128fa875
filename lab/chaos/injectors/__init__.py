"""One file a kind of fault. Each does it from outside and says what it did to whom.

Called by the scenarios and the demo. Every injector takes the laboratory, the job and a seeded
generator of random numbers, and returns `Done`. Must not wait for what follows, but where the next
one more of the same fault has to fall after it.
"""

import time
from collections.abc import Callable
from functools import wraps
from random import Random

import msgspec

from holdfast.lab.cluster import Lab
from holdfast.lab.emulator.inside import NotPossible
from holdfast.lab.on_kubernetes import KubernetesLab


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that was done. `node` and `rank` are the victim's, None where it has none.

    `also`: other nodes that were hurt. `at_s`: when the fault was done that has to be found, by the
    machine's wall clock, which is also the journal's; of several faults the victim's. `step`: how
    far the job had come, None where the fault came with it.
    """

    said: str
    node: str | None = None
    rank: int | None = None
    also: tuple[str, ...] = ()
    step: int | None = None
    at_s: float = msgspec.field(default_factory=time.time)


Injector = Callable[[Lab, str, Random], Done]


def nothing(_lab: Lab, _job: str, _rng: Random) -> Done:
    """For a job that is left alone."""
    return Done(said="nothing is done")


def on_kubernetes(do: Callable[[KubernetesLab, str, Random], Done]) -> Injector:
    """An injector that needs an API server. Raises `NotPossible` where there is none."""

    @wraps(do)
    def checked(lab: Lab, job: str, rng: Random) -> Done:
        if not isinstance(lab, KubernetesLab):
            raise NotPossible("it is done to Kubernetes. Add: --cluster kubernetes")
        return do(lab, job, rng)

    return checked
