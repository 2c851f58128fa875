"""A simulated node: what survives its executor (memory, accepted epoch), and what does not.

Kept by the world. `Process` is the executor as all others see it; the one there is in `executor`.
"""

from enum import StrEnum
from typing import Protocol

from holdfast.lab.simulator.training import Run
from holdfast.protocol.messages import Desired, RankStatus, Snapshot


class ExamLie(StrEnum):
    """What tests of a node are worth."""

    HONEST = "honest"
    HANGS = "hangs"  # they never end
    ACCUSES = "accuses"  # whoever is tested with it fails, it says, and it is well itself
    PRAISES = "praises"  # all is well, it says, however bad it is


class Process(Protocol):
    """A node's executor; a new one after each death."""

    machine: "Machine"
    incarnation: str
    connected: bool
    generation: int  # of what it was told last
    run: Run | None  # whose ranks run here
    store_port: int  # 0: it serves no rendezvous
    exits: dict[int, RankStatus]  # of ranks that have ended here

    def obey(self, desired: Desired) -> None: ...

    def report(self) -> None: ...

    def say_stored(self, run: Run) -> None: ...

    def rank_ends(self, rank: int, *, code: int = 0, signal: int = 0, error: str = "") -> None: ...

    def kill(self) -> None: ...


class Machine:
    """A node, and what is wrong with it."""

    def __init__(self, name: str, rack: str) -> None:
        self.name = name
        self.rack = rack
        self.up = True
        self.cut = False  # nothing can be heard of it, nor it hear anything
        self.bad = False  # fails its tests
        self.lemon_s: float | None = None  # ranks here die so long after each start; tests pass
        self.unkillable = False
        self.wedged = False  # it is there, and no executor comes up
        self.flaps_s = 0.0  # so long its line lasts; 0: as long as it is needed
        self.dies_s = 0.0  # how long ranks take to be gone once they are told to
        self.exam = ExamLie.HONEST
        self.store_lives_s: float | None = None  # the next rendezvous store here, if it dies
        self.cordoned = False
        self.full = False  # the cluster has no room there
        self.marked = False  # the cluster keeps others off it, for it is distrusted
        self.accepted = (0, 0)  # term and epoch, on disk
        self.memory: dict[str, tuple[Snapshot, ...]] = {}
        self.executor: Process | None = None
