"""One file a kind of fault. Each does it from outside and says what it did to whom.

Called by the scenarios and the demo. Every injector takes the laboratory, the job and a seeded
generator of random numbers, and returns `Done`. Must not wait for what follows.
"""

from collections.abc import Callable
from random import Random

import msgspec

from holdfast.lab.cluster import Lab


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that was done. `node` and `rank` are the victim's, None where it has none.

    `also`: another node that was hurt, by a second fault. `spread`: it was many blows over a while,
    so there is no moment from which to count seconds.
    """

    said: str
    node: str | None = None
    rank: int | None = None
    also: str | None = None
    spread: bool = False


Injector = Callable[[Lab, str, Random], Done]
