"""Faults 35, 39, 41, 48 and 49: the driver dies, or where ranks meet; there is more than one fault,
or nobody is heard.
"""

import signal

from msgspec.structs import replace

from holdfast.lab.chaos.injectors import driver, meeting, node, process, rank, together
from holdfast.lab.chaos.scenario import STORE_EVERY, Expected, Scenario
from holdfast.lab.chaos.table.expected import IN_PLACE, LOST, TWICE, UNSEEN

_POOL = (
    rank.signalled(signal.SIGKILL),
    rank.signalled(signal.SIGSTOP),
    node.lost,
    driver.killed,
    process.killed("executor"),
    process.killed("daemon"),
    process.killed("agent"),
    process.gateway_killed,
)
_PAIR = replace(
    TWICE,
    names_hurt=True,
    may_be_quiet=True,  # both may be of those that no rank notices
    blame=("infrastructure", "unknown"),
    most_steps_lost=6 * STORE_EVERY,
)
_STORM = Expected(
    names_node=False, names_hurt=True, most_steps_lost=STORE_EVERY, told_within_steps=STORE_EVERY
)
_kill = rank.signalled(signal.SIGKILL)

ROWS: tuple[Scenario, ...] = (
    Scenario(
        39,
        "redis-killed",
        "the Redis where ranks meet is killed, then a rank, and the Redis begins anew, empty",
        meeting.redis_killed_and(rank.signalled(signal.SIGKILL)),
        IN_PLACE,
        longer=4,
        store="redis",
    ),
    Scenario(35, "driver-killed", "the driver is killed while all is well", driver.killed, UNSEEN),
    *(
        Scenario(
            35,
            f"driver-killed-{phase.lower()}",
            f"a rank is killed, then the driver while its job is {phase}",
            driver.killed_in(phase, _kill),
        )
        for phase in ("Suspending", "Restoring", "Starting", "Running")
    ),
    Scenario(
        35,
        "driver-killed-often",
        "the driver is killed twenty times at random moments, and a rank meanwhile",
        driver.killed_often(20),
        IN_PLACE,
        longer=10,
    ),
    Scenario(
        35,
        "driver-stalled",
        "a rank is killed, and the driver is stopped for 5 to 45 s while the job recovers",
        driver.followed(_kill, driver.stalled),
        IN_PLACE,
        longer=10,
    ),
    Scenario(
        41,
        "rank-twice",
        "a rank is killed, and another while the job recovers",
        driver.followed(_kill, _kill),
        TWICE,
    ),
    Scenario(
        41,
        "node-after-rank",
        "a rank is killed, and a node is lost while the job recovers",
        driver.followed(_kill, node.lost),
        TWICE,
    ),
    Scenario(
        41,
        "driver-after-node",
        "a node is lost, and the driver is killed while the job recovers",
        driver.followed(node.lost, driver.killed),
        LOST,
    ),
    Scenario(
        41,
        "pair-drawn",
        "two faults at once, drawn: of ranks, nodes, the driver and what serves them",
        together.drawn(_POOL),
        _PAIR,
        needs_links=True,
        longer=2,
    ),
    Scenario(
        48,
        "start-storm",
        "a rank dies in each of the first three attempts, soon after their start",
        rank.stormed(3),
        _STORM,
        at_once=True,
    ),
    Scenario(
        49,
        "daemons-silent",
        "the daemons of all nodes stand still for 20 s",
        process.daemons_stopped,
        UNSEEN,
        longer=5,
    ),
)
