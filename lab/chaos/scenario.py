"""What a scenario is: a fault, what it is done to, and what must follow.

Made in `chaos.table`; played by `chaos.play` and the demo, judged by `chaos.score`.
"""

from typing import Any

import msgspec

from holdfast.lab.chaos.injectors import Injector

WORKLOAD = "holdfast.workload.main"
"""The built-in one, as it is."""
STORE_EVERY = 5
"""Steps between checkpoints to the store in all scenarios."""


class Expected(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What must follow. Never an eviction of a node but the victim."""

    phase: str = "Succeeded"
    incident: bool = True  # False: nothing that a user would call a fault
    may_be_quiet: bool = False  # an incident may be there, and none is as well
    blame: tuple[str, ...] = ("infrastructure", "unknown")
    names_rank: bool = False  # the incident has to name the victim's rank, not a complainer's
    names_node: bool = True
    names_hurt: bool = False  # it has to name one of those that were hurt, or nobody
    may_evict: bool = False  # the victim's node
    must_evict: bool = False
    most_steps_lost: int = 2  # counted in steps that all ranks had completed
    told_within_steps: int = 1  # how near the driver's word of what was lost has to be to that
    compares_losses: bool = True
    incidents: int = 9  # at most so many for which something was done
    must_leave: bool = False  # the job those nodes to which it was done, and no others
    part: str = ""  # of the victim's node, which the evidence has to name
    kind: str = ""  # which kind of incident it has to be, where that is to be told apart
    untold: tuple[str, ...] = ()  # kinds of incidents that may not be told of anybody
    keeps_stored: bool = False  # no attempt may begin behind what the store had acknowledged
    reports: str = ""  # the kind of incident that has to be told of the victim, if nothing is done


class Shape(msgspec.Struct, frozen=True):
    """Nodes that carry ranks, those that stand by for them, and further ones; in so many racks."""

    nodes: int = 2
    standbys: int = 1
    others: int = 0
    racks: int = 2
    gpus: int = 0  # of each node, as files

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
    family: str = ""  # a name that stands for all of it
    store: str = ""  # the real server beside it (`chaos.stored`) to which its checkpoints go
    at_once: bool = False  # when the job is submitted, not in the middle of its training
