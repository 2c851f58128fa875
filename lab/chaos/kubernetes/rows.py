"""What a row of the table of faults on Kubernetes is, and what must follow of most of them.

Used by the parts of the table: `kubelets`, `drivers`, `servers`, `accidents`.
"""

import signal

import msgspec

from holdfast.lab.chaos.injectors import rank
from holdfast.lab.chaos.kubernetes.witnesses import Witness
from holdfast.lab.chaos.scenario import STORE_EVERY, Expected, Scenario, Shape

GONE = "Gone"
"""In the place of a phase: there is no TrainingJob any more."""


class OnKubernetes(Scenario, frozen=True):
    """A row of the table. `there`: that its fault was, where the score does not say it. `holds`:
    what else has to be so, besides what always has.
    """

    there: tuple[Witness, ...] = ()
    holds: tuple[Witness, ...] = ()
    starts_api: bool = False  # the API server is started anew, and forbids all until it is ready
    proxied: bool = False  # the driver reaches the API server by a proxy of its own
    shared: bool = False  # its journal is in a PostgreSQL, and it leads by a Lease
    two: bool = False  # another driver shares that journal, and stands by
    relayed: bool = False  # nodes reach the driver by a relay that can repeat messages
    driver: str = "holdfast.driver.main"  # the module that is run as the driver


IN_PLACE = Expected(names_rank=True)
UNSEEN = Expected(incident=False, most_steps_lost=0)
LOST = Expected(may_evict=True, must_evict=True, most_steps_lost=3 * STORE_EVERY)
STANDBY = Expected(
    blame=("infrastructure",), may_evict=True, must_evict=True, most_steps_lost=0, incidents=1
)
TWICE = Expected(
    may_evict=True,
    names_node=False,
    most_steps_lost=4 * STORE_EVERY,
    told_within_steps=STORE_EVERY,
)
AGAIN = Expected(
    names_rank=True,
    most_steps_lost=6,  # two each time
    told_within_steps=STORE_EVERY,
)
ONE_INCIDENT = msgspec.structs.replace(
    LOST,
    incidents=1,
    told_within_steps=STORE_EVERY,  # nobody is left who saw the last steps
)
EACH = msgspec.structs.replace(
    LOST,
    names_node=False,  # the first one names the rank that was killed
    incidents=2,
    most_steps_lost=4 * STORE_EVERY,
    told_within_steps=STORE_EVERY,
)
MOVED = Expected(
    names_node=False,
    blame=("unknown",),
    most_steps_lost=1,  # one that was completed and not yet sealed when its ranks were ended
)
LEMON = Expected(
    most_steps_lost=3 * STORE_EVERY,
    told_within_steps=STORE_EVERY,  # each of its deaths may be told one step off
    must_leave=True,
)
BAD_VERSION = Expected(
    names_rank=True,
    names_node=False,
    blame=("user",),
    incidents=6,  # by which it is to be left
    most_steps_lost=6,
)
FORGOTTEN = Expected(phase=GONE, incident=False, most_steps_lost=0, compares_losses=False)

MIDDLE, LONG, LONGEST = 5, 10, 20
"""Times the steps of the others, where the job has to outlast what is done to it."""
RACKS = Shape(nodes=2, standbys=2, others=2, racks=3)
"""A job has its nodes in one rack where one has room for all of it: that one is lost."""

kill = rank.signalled(signal.SIGKILL)
kill_first = rank.signalled(signal.SIGKILL, rank=0)
