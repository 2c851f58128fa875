"""The faults that can be done here: number, name, sentence, injector, and what must follow.

Numbers are those of docs/faults.md. Read by the command line and the demo; run by `chaos.play`.
"""

import signal
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from holdfast.kit import alike
from holdfast.lab.chaos.injectors import (
    Injector,
    checkpoint,
    driver,
    lemon,
    link,
    node,
    process,
    rank,
    user_bug,
)

WORKLOAD = "holdfast.workload.main"
"""The built-in one, as it is."""


class Expected(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What must follow. Never an eviction of a node but the victim."""

    phase: str = "Succeeded"
    incident: bool = True  # False: nothing that a user would call a fault
    blame: tuple[str, ...] = ("infrastructure", "unknown")
    names_rank: bool = False  # the incident has to name the victim's rank, not a complainer's
    names_node: bool = True
    may_evict: bool = False  # the victim's node
    must_evict: bool = False
    most_steps_lost: int = 2  # counted in steps that all ranks had completed
    told_within_steps: int = 1  # how near the driver's word of what was lost has to be to that
    compares_losses: bool = True
    incidents: int = 9  # at most so many for which something was done
    must_leave: bool = False  # the job those nodes to which it was done, and no others
    part: str = ""  # of the victim's node, which the evidence has to name
    kind: str = ""  # which kind of incident it has to be, where that is to be told apart
    reports: str = ""  # the kind of incident that has to be told of the victim, if nothing is done


class Shape(msgspec.Struct, frozen=True):
    """Nodes that carry ranks, those that stand by for them, and further ones; in so many racks."""

    nodes: int = 2
    standbys: int = 1
    others: int = 0
    racks: int = 2

    @property
    def spare(self) -> int:
        return self.standbys + self.others


class Scenario(msgspec.Struct, frozen=True):
    """One fault: a row of the table, whose columns are these fields."""

    number: int
    name: str
    says: str
    do: Injector
    expected: Expected = Expected()
    script: str = WORKLOAD  # the module that ranks run
    needs_links: bool = False
    longer: int = 1  # this many times the steps of the others
    shape: Shape = Shape()
    spec: dict[str, Any] = {}  # what the job's spec has besides, or instead
    first: Injector | None = None  # done before the job is submitted
    at_once: bool = False  # when the job is submitted, not in the middle of its training


STORE_EVERY = 5
"""Steps between checkpoints to the store in all scenarios."""

_IN_PLACE = Expected(names_rank=True)
_UNSEEN = Expected(incident=False, most_steps_lost=0)
_LOST = Expected(may_evict=True, must_evict=True, most_steps_lost=3 * STORE_EVERY)
_FROM_STORE = Expected(may_evict=True, must_evict=True, most_steps_lost=4 * STORE_EVERY)
_HANG = Expected(names_rank=True, may_evict=True, blame=("infrastructure", "unknown", "user"))
_LINK = Expected(
    blame=("infrastructure",),
    may_evict=True,
    must_evict=True,
    most_steps_lost=6 * STORE_EVERY,
    told_within_steps=STORE_EVERY,  # it dies again and again: as for `_TWICE`
    part="link",
)
_USER = Expected(names_rank=True, blame=("user",))
_FAILED = Expected(
    phase="Failed",
    names_rank=True,
    blame=("user",),
    most_steps_lost=100,
    told_within_steps=100,
    compares_losses=False,
)
_MOVED = Expected(
    names_node=False,
    blame=("unknown",),
    most_steps_lost=1,  # one that was completed and not yet sealed when its ranks were ended
)
_STANDBY = Expected(
    blame=("infrastructure",), may_evict=True, must_evict=True, most_steps_lost=0, incidents=1
)
_APART = Expected(names_node=False, most_steps_lost=3 * STORE_EVERY)
"""Each of the two is well for others: one place moves, and nobody is evicted."""
_NEVER_MET = Expected(names_node=False, most_steps_lost=0)
_TWICE = Expected(
    may_evict=True,
    names_node=False,
    most_steps_lost=4 * STORE_EVERY,
    told_within_steps=STORE_EVERY,  # it counts a step once, the ranks each way back
)

_LEMON = Expected(
    most_steps_lost=3 * STORE_EVERY,
    told_within_steps=STORE_EVERY,  # each of its deaths may be told one step off
    must_leave=True,
)
_LEMONS = msgspec.structs.replace(
    _LEMON, most_steps_lost=6 * STORE_EVERY, told_within_steps=2 * STORE_EVERY, incidents=18
)
_KEEPS_MORE = {"memoryIntervalSteps": 1, "storeIntervalSteps": STORE_EVERY, "retention": 4}
"""Of two checkpoints both would be poisoned."""
_POISONED = Expected(
    names_rank=True,
    most_steps_lost=6 * STORE_EVERY,  # all that was poisoned, and what was trained for it
    told_within_steps=STORE_EVERY,
)
_IDLE = Expected(names_rank=True, blame=("unknown", "user"))

_BUGGY = "holdfast.lab.chaos.scripts.buggy"

_kill = rank.signalled(signal.SIGKILL)
_segfault = rank.signalled(signal.SIGSEGV)
_stop = rank.signalled(signal.SIGSTOP)
_killed = process.killed

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(1, "rank-killed", "a rank dies of SIGKILL", _kill, _IN_PLACE),
    Scenario(1, "rank-segfault", "a rank dies of SIGSEGV", _segfault, _IN_PLACE),
    Scenario(
        2,
        "executor-killed",
        "the executor of a node is killed, its ranks with it",
        _killed("executor"),
    ),
    Scenario(2, "daemon-killed", "the daemon of a node is killed", _killed("daemon"), _UNSEEN),
    Scenario(
        2, "launcher-killed", "the warm launcher of a node is killed", _killed("launcher"), _UNSEEN
    ),
    Scenario(2, "keeper-killed", "the keeper is killed", process.keeper_killed, _UNSEEN),
    Scenario(
        2, "agent-killed", "the checkpoint agent of a node is killed", _killed("agent"), _UNSEEN
    ),
    Scenario(
        2,
        "store-killed",
        "a rank is killed, then the process that serves the next attempt's rendezvous",
        process.store_killed,
        _IN_PLACE,
        longer=10,
    ),
    Scenario(
        2,
        "gateway-killed",
        "the relay through which all nodes reach the driver is killed",
        process.gateway_killed,
        _UNSEEN,
        needs_links=True,
    ),
    Scenario(3, "node-lost", "a node is lost, its connections are reset", node.lost, _LOST),
    Scenario(
        3,
        "node-unplugged",
        "the link of a node goes down without a single reset",
        node.unplugged,
        _LOST,
        needs_links=True,
    ),
    Scenario(4, "rank-stopped", "a rank is stopped (SIGSTOP)", _stop, _HANG),
    Scenario(
        4,
        "rank-spins",
        "a rank spins in Python for ever",
        user_bug.armed("spin"),
        _HANG,
        script=_BUGGY,
    ),
    Scenario(
        4,
        "rank-on-pipe",
        "a rank waits on a pipe that nobody writes to",
        user_bug.armed("pipe"),
        _HANG,
        script=_BUGGY,
    ),
    Scenario(
        4,
        "evaluation-works",
        "a rank evaluates for 30 s, its peers wait for it",
        user_bug.armed("evaluate"),
        _UNSEEN,
        script=_BUGGY,
    ),
    Scenario(
        4,
        "evaluation-idles",
        "a rank is idle for 30 s whenever it comes to one step",
        user_bug.armed("idle", again="here"),
        _IDLE,
        script=_BUGGY,
    ),
    Scenario(
        6,
        "exit-0",
        "a rank ends with exit code 0 before its peers whenever it comes to one step",
        user_bug.armed("leave", again="here"),
        _FAILED,
        script=_BUGGY,
    ),
    Scenario(
        7,
        "exception-always",
        "the user's script raises at each attempt",
        user_bug.armed("raise", again="always"),
        _FAILED,
        script=_BUGGY,
    ),
    Scenario(
        7,
        "exception-at-step",
        "the user's script raises whenever it comes to one step",
        user_bug.armed("raise", again="here"),
        _FAILED,
        script=_BUGGY,
    ),
    Scenario(
        8,
        "exception-once",
        "the user's script raises once",
        user_bug.armed("raise"),
        _USER,
        script=_BUGGY,
    ),
    Scenario(
        14,
        "link-slow",
        "a node's link is slow, and one of its ranks dies each time it is back",
        link.slow_and_deadly(),
        _LINK,
        needs_links=True,
        shape=Shape(standbys=0, others=1),  # a warm standby would take the place before its tests
    ),
    Scenario(
        19,
        "cut-one-way",
        "what one node of the job sends to another is lost, and nothing else is",
        link.one_way,
        _APART,
        needs_links=True,
    ),
    Scenario(
        19,
        "cut-one-way-at-start",
        "the two nodes that a job gets first cannot meet, for one way is cut",
        link.still_cut,
        _NEVER_MET,
        needs_links=True,
        spec={"timeouts": {"firstStepS": 15}},  # the first step of this job takes one second
        first=link.one_way_from_the_start,
        at_once=True,
    ),
    *(
        Scenario(
            24,
            f"checkpoint-{damage.__name__}",
            f"the newest checkpoint is damaged ({damage.__name__}), then a node is lost",
            checkpoint.damaged(damage),
            _FROM_STORE,
        )
        for damage in (checkpoint.flip, checkpoint.truncate, checkpoint.drop, checkpoint.tear)
    ),
    Scenario(
        24,
        "point-poisoned",
        "ranks die at their start from what was saved lately, and a rank is killed",
        user_bug.poisoned,
        _POISONED,
        script=_BUGGY,
        longer=3,
        spec={"checkpoint": _KEEPS_MORE},
    ),
    Scenario(
        25,
        "save-torn",
        "a node is lost between two shards of a checkpoint",
        checkpoint.torn_save,
        _FROM_STORE,
    ),
    Scenario(35, "driver-killed", "the driver is killed while all is well", driver.killed, _UNSEEN),
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
        _IN_PLACE,
        longer=10,
    ),
    Scenario(
        35,
        "driver-stalled",
        "a rank is killed, and the driver is stopped for 5 to 45 s while the job recovers",
        driver.followed(_kill, driver.stalled),
        _IN_PLACE,
        longer=10,
    ),
    Scenario(
        40,
        "standby-fails-test",
        "a node that comes to stand by computes wrong",
        node.standby_fails_test,
        _STANDBY,
        needs_links=True,
        longer=5,
        shape=Shape(standbys=2, others=1),
    ),
    Scenario(
        41,
        "rank-twice",
        "a rank is killed, and another while the job recovers",
        driver.followed(_kill, _kill),
        _TWICE,
    ),
    Scenario(
        41,
        "node-after-rank",
        "a rank is killed, and a node is lost while the job recovers",
        driver.followed(_kill, node.lost),
        _TWICE,
    ),
    Scenario(
        41,
        "driver-after-node",
        "a node is lost, and the driver is killed while the job recovers",
        driver.followed(node.lost, driver.killed),
        _LOST,
    ),
    Scenario(
        47,
        "node-lemon",
        "ranks die on a node (SIGSEGV) some seconds after each start, and its tests pass",
        lemon.segfaulting(),
        _LEMON,
        longer=10,
    ),
    Scenario(
        47,
        "two-lemons",
        "ranks die on two of four nodes (SIGSEGV), and the tests of both pass",
        lemon.segfaulting(2),
        _LEMONS,
        longer=10,
        shape=Shape(nodes=4, standbys=2),
    ),
    Scenario(
        50,
        "maintenance-asked",
        "a person wants a node free within a minute",
        node.asked_for,
        _MOVED,
        longer=5,
    ),
)


class UnknownFault(ValueError):
    """No fault has this name; the message says which names are near it."""

    def __init__(self, names: Sequence[str], among: Sequence[Scenario]) -> None:
        known = [each.name for each in among]
        near = [each for name in names for each in alike.near(name, known)]
        hint = f" Nearest: {', '.join(dict.fromkeys(near))}." if near else ""
        verb = "is no fault" if len(names) == 1 else "are no faults"
        super().__init__(f"{', '.join(map(repr, names))} {verb}.{hint}")


def named(name: str) -> Scenario:
    """One fault by its name. Raises `UnknownFault`."""
    found = next((each for each in SCENARIOS if each.name == name), None)
    if found is None:
        raise UnknownFault([name], SCENARIOS)
    return found


S = TypeVar("S", bound=Scenario)


def chosen(names: Sequence[str], among: Sequence[S]) -> list[S]:
    """By name or by number; "all" is all. Raises `UnknownFault`."""
    if "all" in names:
        return list(among)
    unknown = [name for name in names if not any(_is(name, each) for each in among)]
    if unknown:
        raise UnknownFault(unknown, among)
    return [each for each in among if any(_is(name, each) for name in names)]


def _is(name: str, scenario: Scenario) -> bool:
    return name in (scenario.name, str(scenario.number))
