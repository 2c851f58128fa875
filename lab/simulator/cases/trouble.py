"""What befalls an attempt of a job, and what is known of an attempt when it does. Pure data.

Made by causes; played by `play` and by the oracle.
"""

from enum import StrEnum

import msgspec

STEP_S = 1.0
"""A training step."""
SETTLED_S = 3 * 3_600.0
"""A job that trains for so long after its last trouble, and of which no more is to come, is done
with: what was begun for that, tests and all, has ended by then, and whoever looks back knows what
did not come again."""


class Manner(StrEnum):
    """How an attempt stops, or seems to."""

    SIGNAL = "signal"  # a rank dies of a signal that it brought upon itself
    EXCEPTION = "exception"  # a rank raises
    EXIT_ZERO = "exit-zero"  # a rank ends well while its peers train
    OUT_OF_MEMORY = "out-of-memory"  # the kernel kills a rank for memory
    HANG = "hang"  # ranks wait for each other for ever
    PAUSE = "pause"  # no step for a while, the rank alive and its stack changing; passes by itself
    LOST = "lost"  # a node cannot be reached for a while, its ranks hang
    SILENCE = "silence"  # the driver does not hear of nodes for a while; training goes on


PASSES = frozenset({Manner.PAUSE, Manner.SILENCE})
"""What ends by itself, if nobody ends the attempt."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks that train, as a cause sees them."""

    nodes: tuple[str, ...]  # by place
    start: int  # step from which they started
    version: int = 1  # of the job's code


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """The next thing that befalls an attempt, so long from now."""

    after_s: float
    manner: Manner
    node: str | None = None  # where it shows; None: nobody can be named
    words: str = ""  # of an exception
    at_start: bool = False  # before the first step is done
    lasts_s: float = 0.0  # of what passes, and until a lost node is back
    silent: tuple[str, ...] = ()  # of a silence: the nodes that are not heard
