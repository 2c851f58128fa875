"""Faults 24 and 25: what a job would start from is damaged."""

from holdfast.lab.chaos.injectors import checkpoint, user_bug
from holdfast.lab.chaos.scenario import Scenario
from holdfast.lab.chaos.scripts import BUGGY
from holdfast.lab.chaos.table.expected import FROM_STORE, KEEPS_MORE, POISONED

ROWS: tuple[Scenario, ...] = (
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
