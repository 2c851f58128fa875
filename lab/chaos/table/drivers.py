"""Faults 35 and 41: the driver dies, or a second fault comes in a recovery."""

import signal

from holdfast.lab.chaos.injectors import driver, node, rank
from holdfast.lab.chaos.scenario import Scenario
from holdfast.lab.chaos.table.expected import IN_PLACE, LOST, TWICE, UNSEEN

_kill = rank.signalled(signal.SIGKILL)

ROWS: tuple[Scenario, ...] = (
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
)
