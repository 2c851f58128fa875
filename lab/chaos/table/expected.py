"""What must follow, for all rows that ask for the same."""

import sys

from msgspec.structs import replace

from holdfast.lab.chaos.scenario import STORE_EVERY, WORKLOAD, Expected

IN_PLACE = Expected(names_rank=True)
UNSEEN = Expected(incident=False, most_steps_lost=0)
LOST = Expected(may_evict=True, must_evict=True, most_steps_lost=3 * STORE_EVERY)
FROM_STORE = Expected(may_evict=True, must_evict=True, most_steps_lost=4 * STORE_EVERY)
HOLDERS_LOST = replace(
    FROM_STORE,
    names_node=False,
    names_hurt=True,
    incidents=1,
    told_within_steps=10,  # what ranks did since the last heartbeat died with them
)
FROM_REAL_STORE = replace(HOLDERS_LOST, most_steps_lost=80, keeps_stored=True)
"""All since the store failed, which is more than what it lost."""
HANG = Expected(names_rank=True, may_evict=True, blame=("infrastructure", "unknown", "user"))
LINK = Expected(
    blame=("infrastructure",),
    may_evict=True,
    must_evict=True,
    most_steps_lost=6 * STORE_EVERY,
    told_within_steps=STORE_EVERY,  # it dies again and again: as for `TWICE`
    part="link",
)
USER = Expected(names_rank=True, blame=("user",))
FAILED = Expected(
    phase="Failed",
    names_rank=True,
    blame=("user",),
    most_steps_lost=100,
    told_within_steps=100,
    compares_losses=False,
)
CRASHES = replace(FAILED, names_rank=False, names_node=False, blame=("unknown", "user"))
"""Its place goes to another node of the job, which shows that it is neither's."""
MOVED = Expected(
    names_node=False,
    blame=("unknown",),
    most_steps_lost=1,  # one that was completed and not yet sealed when its ranks were ended
)
STANDBY = Expected(
    blame=("infrastructure",), may_evict=True, must_evict=True, most_steps_lost=0, incidents=1
)
APART = Expected(names_node=False, most_steps_lost=3 * STORE_EVERY)
"""Each of the two is well for others: one place moves, and nobody is evicted."""
NEVER_MET = Expected(names_node=False, most_steps_lost=0)
TWICE = Expected(
    may_evict=True,
    names_node=False,
    most_steps_lost=4 * STORE_EVERY,
    told_within_steps=STORE_EVERY,  # it counts a step once, the ranks each way back
)

LEMON = Expected(
    most_steps_lost=3 * STORE_EVERY,
    told_within_steps=STORE_EVERY,  # each of its deaths may be told one step off
    must_leave=True,
)
LEMONS = replace(
    LEMON, most_steps_lost=6 * STORE_EVERY, told_within_steps=2 * STORE_EVERY, incidents=18
)
KEEPS_MORE = {"memoryIntervalSteps": 1, "storeIntervalSteps": STORE_EVERY, "retention": 8}
"""Of few all would be poisoned, where steps go on while a busy machine looks for them."""
PEERS_ALONE = {"memoryIntervalSteps": 1, "storeIntervalSteps": 0, "peerIntervalSteps": 2}
POISONED = Expected(
    names_rank=True,
    most_steps_lost=6 * STORE_EVERY,  # all that was poisoned, and what was trained for it
    told_within_steps=STORE_EVERY,
)
IDLE = Expected(names_rank=True, blame=("unknown", "user"))

TOLD = replace(UNSEEN, names_rank=False)
"""With `reports`: said, and nothing is done."""
OF_LINK = replace(TOLD, reports="link-slow", compares_losses=False)
"""Of a job whose nodes send each other enough for that: another one than the reference."""
SENDS_MUCH = {
    "command": [sys.executable, "-m", WORKLOAD, "--steps", "150", "--hidden", "256"],
    "topology": {"dp": 4},
}
OF_HARDWARE = Expected(blame=("infrastructure",), kind="kernel-fault", most_steps_lost=STORE_EVERY)
BROKEN = replace(LOST, blame=("infrastructure",), kind="kernel-fault", incidents=1)
UNKILLABLE = replace(HANG, must_evict=True, most_steps_lost=3 * STORE_EVERY)
