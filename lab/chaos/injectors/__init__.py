"""One file a kind of fault. Each does it from outside and says what it did to whom.

Called by the scenarios and the demo. Every injector takes the laboratory, the job and a seeded
generator of random numbers, and returns `Done`. Must not wait for what follows.
"""

import time
from collections.abc import Callable
from random import Random

import msgspec

from holdfast.lab.cluster import Lab


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that was done. `node` and `rank` are the victim's, None where it has none.

    `also`: another node that was hurt, by a second fault. `at_s`: when the blow fell that has to be
    found, by the machine's wall clock, which is also the journal's; of several blows the victim's.
    """

    said: str
    node: str | None = None
    rank: int | None = None
    also: str | None = None
    at_s: float = msgspec.field(default_factory=time.time)


Injector = Callable[[Lab, str, Random], Done]
