"""The simulated world as it is: machines, jobs, what trains, what is stored, and who is guilty.

Made by `simulate` for one scenario; changed by the modules beside it, each of which is about one
part: `lines`, `cluster`, `processes`, `course`, `stored`, `sights`, `people`, `faults`. Knows the
truth, which the driver is told only as executors, cluster and detectors would: late, twice, out of
order, or not at all. Must not know any of them.
"""

from collections import Counter
from random import Random

from holdfast.lab.simulator.agenda import Agenda
from holdfast.lab.simulator.books import Books
from holdfast.lab.simulator.driver import Driver
from holdfast.lab.simulator.machines import Machine
from holdfast.lab.simulator.scenario import Scenario
from holdfast.lab.simulator.shelf import Point, Shelf
from holdfast.lab.simulator.streams import Streams
from holdfast.lab.simulator.training import Run
from holdfast.lab.simulator.waits import Waits


class World:
    """Everything that is, for one scenario."""

    driver: Driver

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.streams = Streams(scenario.seed)
        self.agenda = Agenda()
        self.noisy = True
        self.machines = {
            f"n{k}": Machine(f"n{k}", f"rack-{k % scenario.racks}") for k in range(scenario.nodes)
        }
        self.jobs = {job.name: job for job in scenario.jobs}
        self.runs: dict[tuple[str, int], Run] = {}
        self.lines: dict[str, list[Point]] = {name: [] for name in self.jobs}
        self.best: dict[str, int] = dict.fromkeys(self.jobs, 0)
        self.store: dict[str, set[Point]] = {name: set() for name in self.jobs}
        self.store_up = True
        self.shelf = Shelf()
        self.told_stored: dict[str, set[Point]] = {name: set() for name in self.jobs}
        self.anew: dict[str, int] = {}  # jobs that were made anew after this epoch
        self.put_back = False  # a journal was
        self.granted: set[str] = set()  # jobs that a person told where to begin
        self.submitted: set[str] = set()
        self.deleted: set[str] = set()
        self.guilty: set[str] = set()  # machines that something really happened to
        self.victims: set[tuple[str, int]] = set()  # ranks of jobs that died of their own
        self.parted: set[tuple[str, str]] = set()  # machines that cannot reach each other
        self.asked: set[str] = set()  # machines that a person wanted out
        self.kept_out: set[str] = set()  # those that are out by a person's word
        self.bugs: dict[str, int] = {}  # steps that a job's own code never gets past
        self.raised: Counter[tuple[str, int]] = Counter()  # by job and step: its own code raised
        self.books = Books()
        self.waits = Waits()
        self.blows = 0  # how often something went wrong
        self._count = 0

    @property
    def now(self) -> float:
        """Virtual seconds."""
        return self.agenda.now

    def rng(self, subject: str, purpose: str) -> Random:
        """Chance for one purpose with one node or job: draws elsewhere do not move it."""
        return self.streams.of(subject, purpose)

    def delay(self, subject: str, purpose: str) -> float:
        """Seconds that something small takes."""
        return self.rng(subject, purpose).uniform(0.001, 0.02)

    def number(self) -> int:
        """Another one at each call."""
        self._count += 1
        return self._count

    def step_of(self, job: str, epoch: int) -> int | None:
        """The last step that all ranks of an epoch have completed; None where it had none."""
        run = self.runs.get((job, epoch))
        return run.step(self.now) if run is not None else None

    def parted_in(self, run: Run) -> tuple[str, ...]:
        """Two nodes of the run that cannot reach each other; () where all can."""
        return next((two for two in sorted(self.parted) if set(two) <= set(run.nodes)), ())
