"""The faults that can be done here: number, name, sentence, injector, and what must follow.

Numbers are those of docs/faults.md. Read by the command line and the demo; run by `chaos.play`.
"""

import difflib
import signal
from collections.abc import Sequence

import msgspec

from holdfast.lab.chaos.injectors import (
    Injector,
    checkpoint,
    driver,
    link,
    node,
    process,
    rank,
    user_bug,
)


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
    part: str = ""  # of the victim's node, which the evidence has to name


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One fault."""

    number: int
    name: str
    says: str
    do: Injector
    expected: Expected = Expected()
    buggy: bool = False  # the user's script is the one with bugs in it
    needs_links: bool = False
    longer: int = 1  # this many times the steps of the others


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
_TWICE = Expected(
    may_evict=True,
    names_node=False,
    most_steps_lost=4 * STORE_EVERY,
    told_within_steps=STORE_EVERY,  # it tells of the last of two ways back
)

_kill = rank.signalled(signal.SIGKILL)

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        number=1, name="rank-killed", says="a rank dies of SIGKILL", do=_kill, expected=_IN_PLACE
    ),
    Scenario(
        number=1,
        name="rank-segfault",
        says="a rank dies of SIGSEGV",
        do=rank.signalled(signal.SIGSEGV),
        expected=_IN_PLACE,
    ),
    Scenario(
        number=2,
        name="executor-killed",
        says="the executor of a node is killed, its ranks with it",
        do=process.killed("executor"),
    ),
    Scenario(
        number=2,
        name="daemon-killed",
        says="the daemon of a node is killed",
        do=process.killed("daemon"),
        expected=_UNSEEN,
    ),
    Scenario(
        number=2,
        name="launcher-killed",
        says="the warm launcher of a node is killed",
        do=process.killed("launcher"),
        expected=_UNSEEN,
    ),
    Scenario(
        number=2,
        name="keeper-killed",
        says="the keeper is killed",
        do=process.keeper_killed,
        expected=_UNSEEN,
    ),
    Scenario(
        number=2,
        name="agent-killed",
        says="the checkpoint agent of a node is killed",
        do=process.killed("agent"),
        expected=_UNSEEN,
    ),
    Scenario(
        number=2,
        name="store-killed",
        says="a rank is killed, then the process that serves the next epoch's rendezvous",
        do=process.store_killed,
        expected=_IN_PLACE,
        longer=10,
    ),
    Scenario(
        number=2,
        name="gateway-killed",
        says="the relay through which all nodes reach the driver is killed",
        do=process.gateway_killed,
        expected=_UNSEEN,
        needs_links=True,
    ),
    Scenario(
        number=3,
        name="node-lost",
        says="a node is lost, its connections are reset",
        do=node.lost,
        expected=_LOST,
    ),
    Scenario(
        number=3,
        name="node-unplugged",
        says="the link of a node goes down without a single reset",
        do=node.unplugged,
        expected=_LOST,
        needs_links=True,
    ),
    Scenario(
        number=4,
        name="rank-stopped",
        says="a rank is stopped (SIGSTOP)",
        do=rank.signalled(signal.SIGSTOP),
        expected=_HANG,
    ),
    Scenario(
        number=4,
        name="rank-spins",
        says="a rank spins in Python for ever",
        do=user_bug.armed("spin"),
        expected=_HANG,
        buggy=True,
    ),
    Scenario(
        number=4,
        name="rank-on-pipe",
        says="a rank waits on a pipe that nobody writes to",
        do=user_bug.armed("pipe"),
        expected=_HANG,
        buggy=True,
    ),
    Scenario(
        number=7,
        name="exception-always",
        says="the user's script raises at each attempt",
        do=user_bug.armed("raise", again=True),
        expected=_FAILED,
        buggy=True,
    ),
    Scenario(
        number=8,
        name="exception-once",
        says="the user's script raises once",
        do=user_bug.armed("raise"),
        expected=_USER,
        buggy=True,
    ),
    Scenario(
        number=14,
        name="link-slow",
        says="a node's link is slow, and one of its ranks dies each time it is back",
        do=link.slow_and_deadly(),
        expected=_LINK,
        needs_links=True,
    ),
    *(
        Scenario(
            number=24,
            name=f"checkpoint-{damage.__name__}",
            says=f"the newest checkpoint is damaged ({damage.__name__}), then a node is lost",
            do=checkpoint.damaged(damage),
            expected=_FROM_STORE,
        )
        for damage in (checkpoint.flip, checkpoint.truncate, checkpoint.drop, checkpoint.tear)
    ),
    Scenario(
        number=25,
        name="save-torn",
        says="a node is lost between two shards of a checkpoint",
        do=checkpoint.torn_save,
        expected=_FROM_STORE,
    ),
    Scenario(
        number=35,
        name="driver-killed",
        says="the driver is killed while all is well",
        do=driver.killed,
        expected=_UNSEEN,
    ),
    *(
        Scenario(
            number=35,
            name=f"driver-killed-{phase.lower()}",
            says=f"a rank is killed, then the driver while its job is {phase}",
            do=driver.killed_in(phase),
        )
        for phase in ("Suspending", "Restoring", "Starting", "Running")
    ),
    Scenario(
        number=35,
        name="driver-killed-often",
        says="the driver is killed twenty times at random moments, and a rank meanwhile",
        do=driver.killed_often(20),
        expected=_IN_PLACE,
        longer=10,
    ),
    Scenario(
        number=41,
        name="rank-twice",
        says="a rank is killed, and another while the job recovers",
        do=driver.followed(_kill, _kill),
        expected=_TWICE,
    ),
    Scenario(
        number=41,
        name="node-after-rank",
        says="a rank is killed, and a node is lost while the job recovers",
        do=driver.followed(_kill, node.lost),
        expected=_TWICE,
    ),
    Scenario(
        number=41,
        name="driver-after-node",
        says="a node is lost, and the driver is killed while the job recovers",
        do=driver.followed(node.lost, driver.killed),
        expected=_LOST,
    ),
)

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


class UnknownFault(ValueError):
    """No fault has this name; the message says which names are near it."""

    def __init__(self, names: Sequence[str]) -> None:
        near = [each for name in names for each in difflib.get_close_matches(name, BY_NAME)]
        hint = f" Nearest: {', '.join(dict.fromkeys(near))}." if near else ""
        verb = "is no fault" if len(names) == 1 else "are no faults"
        super().__init__(f"{', '.join(map(repr, names))} {verb}.{hint}")


def named(name: str) -> Scenario:
    """One fault by its name. Raises `UnknownFault`."""
    if name not in BY_NAME:
        raise UnknownFault([name])
    return BY_NAME[name]


def chosen(names: Sequence[str]) -> list[Scenario]:
    """By name or by number; "all" is all. Raises `UnknownFault`."""
    if "all" in names:
        return list(SCENARIOS)
    unknown = [name for name in names if not _matching(name)]
    if unknown:
        raise UnknownFault(unknown)
    return [
        scenario for scenario in SCENARIOS if any(scenario in _matching(name) for name in names)
    ]


def _matching(name: str) -> list[Scenario]:
    return [each for each in SCENARIOS if name in (each.name, str(each.number))]
