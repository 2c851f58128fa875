"""Faults 23 to 25: what a job would start from is away, or damaged."""

import signal

from holdfast.lab.chaos.injectors import checkpoint, rank, store, user_bug
from holdfast.lab.chaos.scenario import Scenario
from holdfast.lab.chaos.scripts import BUGGY
from holdfast.lab.chaos.table.expected import FROM_STORE, IN_PLACE, KEEPS_MORE, POISONED

ROWS: tuple[Scenario, ...] = (
    Scenario(
        23,
        "store-down",
        "the store is away for ten seconds, and a rank is killed meanwhile",
        store.down_and(rank.signalled(signal.SIGKILL)),
        IN_PLACE,
        longer=3,
    ),
    *(
        Scenario(
            24,
            f"checkpoint-{damage.__name__}",
            f"the newest checkpoint is damaged ({damage.__name__}), then a node is lost",
            checkpoint.damaged(damage),
            FROM_STORE,
        )
        for damage in (checkpoint.flip, checkpoint.truncate, checkpoint.drop, checkpoint.tear)
    ),
    Scenario(
        24,
        "point-poisoned",
        "ranks die at their start from what was saved lately, and a rank is killed",
        user_bug.poisoned,
        POISONED,
        script=BUGGY,
        longer=3,
        spec={"checkpoint": KEEPS_MORE},
    ),
    Scenario(
        25,
        "save-torn",
        "a node is lost between two shards of a checkpoint",
        checkpoint.torn_save,
        FROM_STORE,
    ),
)
