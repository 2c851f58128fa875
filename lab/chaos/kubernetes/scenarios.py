"""The faults that are done on Kubernetes, and what must follow. As `chaos.scenarios`, which see.

Those that are the same on a laptop are done by the same injectors; what must follow is what others
than the driver saw.
"""

import signal

from holdfast.lab.chaos.injectors import driver, node, rank
from holdfast.lab.chaos.kubernetes.witnesses import Witness
from holdfast.lab.chaos.scenarios import STORE_EVERY, Expected, Scenario


class OnKubernetes(Scenario, frozen=True):
    """A row of the table. `holds`: what else has to be so, besides what always has."""

    holds: tuple[Witness, ...] = ()


_IN_PLACE = Expected(names_rank=True)
_UNSEEN = Expected(incident=False, most_steps_lost=0)
_LOST = Expected(may_evict=True, must_evict=True, most_steps_lost=3 * STORE_EVERY)
_TWICE = Expected(
    may_evict=True,
    names_node=False,
    most_steps_lost=4 * STORE_EVERY,
    told_within_steps=STORE_EVERY,
)

_kill = rank.signalled(signal.SIGKILL)

SCENARIOS: tuple[OnKubernetes, ...] = (
    OnKubernetes(3, "node-lost", "a node is lost, its connections are reset", node.lost, _LOST),
    OnKubernetes(
        3,
        "node-unplugged",
        "the link of a node goes down without a single reset",
        node.unplugged,
        _LOST,
    ),
    OnKubernetes(
        35, "driver-killed", "the driver is killed while all is well", driver.killed, _UNSEEN
    ),
    *(
        OnKubernetes(
            35,
            f"driver-killed-{phase.lower()}",
            f"a rank is killed, then the driver while its job is {phase}",
            driver.killed_in(phase),
            _IN_PLACE,
        )
        for phase in ("Suspending", "Restoring", "Starting", "Running")
    ),
    OnKubernetes(
        35,
        "driver-killed-often",
        "the driver is killed ten times at random moments, and a rank meanwhile",
        driver.killed_often(10),
        _IN_PLACE,
        longer=10,
    ),
    OnKubernetes(
        41,
        "node-after-rank",
        "a rank is killed, and a node is lost while the job recovers",
        driver.followed(_kill, node.lost),
        _TWICE,
    ),
    OnKubernetes(
        41,
        "driver-after-node",
        "a node is lost, and the driver is killed while the job recovers",
        driver.followed(node.lost, driver.killed),
        _LOST,
    ),
)
