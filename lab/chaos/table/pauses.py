"""Pauses, which are no hangs (the family `pauses`), and healthy jobs (the family `quiet`).

Where something moves nothing may be done; where nothing does, at most two restarts at each spot,
and the job is never given up.
"""

from collections.abc import Iterator
from itertools import product

from msgspec.structs import replace

from holdfast.lab.chaos.injectors import Injector, host, together, user_bug
from holdfast.lab.chaos.scenario import Expected, Scenario
from holdfast.lab.chaos.scripts import BUGGY
from holdfast.lab.chaos.table.expected import UNSEEN

EVERY = 30
_MANNERS = {
    "idle": "idle, another program takes its time",
    "sleep": "asleep",
    "send": "sending",
    "ask": "asking a server twice a second",
    "burn": "computing",
    "multiply": "computing in a loop of one line",
}
_AT_MOST_TWICE = Expected(
    may_be_quiet=True, names_node=False, blame=("unknown", "user"), incidents=2, most_steps_lost=4
)
"""Restarts at the one spot."""
_HEALTHY = replace(UNSEEN, untold=("slow",))


def _pauses() -> Iterator[Scenario]:
    for manner, seconds in product(_MANNERS, (8, 30)):
        moves = manner != "idle" or seconds == 8
        yield _pause("first", manner, seconds, moves=moves)
        if seconds == 30:
            yield _pause("all", manner, seconds, moves=moves)


def _pause(who: str, manner: str, seconds: int, *, moves: bool) -> Scenario:
    """Of 8 s every 30 steps, of 30 s at one step."""
    often = EVERY if seconds == 8 else 0
    bug = f"{manner}-{seconds}"
    on_first = user_bug.armed_on_first(bug, every=often or 45)
    when = f"every {often} steps" if often else "once"
    ranks = "rank 0 is" if who == "first" else "all ranks are"
    return Scenario(
        4,
        f"pause-{who}-{bug}s",
        f"{ranks} {_MANNERS[manner]} for {seconds} s, {when}",
        on_first if who == "first" else user_bug.armed_on_all(bug),
        UNSEEN if moves else _AT_MOST_TWICE,
        script=BUGGY,
        longer=2 if often else 1,
        family="pauses",
    )


def _quiet(name: str, says: str, *what: Injector, longer: int) -> Scenario:
    return Scenario(
        0,
        f"quiet-{name}",
        says,
        together.all_of(*what),
        _HEALTHY,
        script=BUGGY,
        longer=longer,
        family="quiet",
    )


_evaluates = user_bug.armed_on_all("evaluate-8", every=80)
_saves = user_bug.armed_on_all("save", every=25)
_collects = user_bug.armed_on_all("collect", every=1)

ROWS: tuple[Scenario, ...] = (
    *_pauses(),
    _quiet("evaluations", "all ranks evaluate for 8 s every 80 steps", _evaluates, longer=5),
    _quiet("saves", "all ranks save by themselves every 25 steps", _saves, longer=5),
    _quiet("garbage", "storms of garbage collection on all ranks", _collects, longer=5),
    _quiet(
        "neighbours",
        "a loop on each core computes beside the ranks for 60 s",
        host.neighbours(60.0),
        longer=8,
    ),
    _quiet(
        "everything",
        "all of it at once, with neighbours for 120 s",
        _evaluates,
        _saves,
        _collects,
        host.neighbours(120.0),
        longer=5,
    ),
)
