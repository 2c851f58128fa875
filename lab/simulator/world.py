"""The simulated world as it is: machines, jobs, what trains, what is stored, and who is guilty.

Made by `simulate` for one scenario; changed by the modules beside it, each of which is about one
part: `connections`, `cluster`, `processes`, `training_run`, `checkpoints`, `detector_stub`,
`people`, `faults`. Knows the truth, which the driver is told only as executors, cluster and
detectors would: late, twice, out of order, or not at all. Must not know any of them.
"""

from collections import Counter
from random import Random

from holdfast.lab.simulator.agenda import Agenda
from holdfast.lab.simulator.books import Books
from holdfast.lab.simulator.driver import Driver
from holdfast.lab.simulator.holders import Holders
from holdfast.lab.simulator.machines import Machine
from holdfast.lab.simulator.promises import Promises
from holdfast.lab.simulator.rng_streams import Streams
from holdfast.lab.simulator.scenario import Scenario
from holdfast.lab.simulator.store_lookup import Point, StoreLookup
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
        self.tests_s = 0.0  # how long tests of nodes with others may take
        self.calls_s = 0.0  # how long calls to the cluster may take
        self.lookup = StoreLookup()
        self.told_stored: dict[str, set[Point]] = {name: set() for name in self.jobs}
        self.anew: dict[str, int] = {}  # jobs that were made anew after this epoch
        self.put_back = False  # a journal was
        self.lost: set[int] = set()  # epochs that began ranks, and of which it does not know
        self.granted: set[str] = set()  # jobs that a person told where to begin
        self.submitted: set[str] = set()
        self.deleted: set[str] = set()
        self.guilty: set[str] = set()  # machines that something really happened to
        self.victims: set[tuple[str, int]] = set()  # ranks of jobs that died of their own
        self.parted: set[tuple[str, str]] = set()  # machines that cannot reach each other
        self.asked: set[str] = set()  # machines that a person wanted out
        self.kept_out: set[str] = set()  # those that are out by a person's word
        self.outs: dict[
            str, tuple[int, float]
        ] = {}  # by machine: evictions, and the last one's time
        self.bugs: dict[str, int] = {}  # steps that a job's own code never gets past
        self.greedy: set[str] = set()  # of these jobs, those that are killed there for memory
        self.killed: Counter[tuple[str, int]] = Counter()  # by job and step: so often they were
        self.tested: set[tuple[str, str]] = set()  # by machine: exams that it ran to their end
        self.misled: set[str] = set()  # jobs whose tests of a node alone are wrong
        self.victims_of: dict[str, list[str]] = {name: [] for name in self.jobs}
        self.misjudged: dict[str, str] = {}  # machines that failed such tests, and whose
        self.raised: Counter[tuple[str, int]] = Counter()  # by job and step: its own code raised
        self.books = Books()
        self.holders = Holders()
        self.promises = Promises()
        self.robbed: dict[
            str, str
        ] = {}  # by machine that a job gave back while it needed it: the job
        self.waits = Waits()
        self.faults_so_far = 0  # how often something went wrong
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

    def newest_run(self, job: str) -> Run | None:
        """The job's last attempt that began."""
        begun = self.lines[job]
        return self.runs[job, begun[-1][0]] if begun else None

    def begin_life(self, job: str) -> None:
        """The job's name is used again: nothing of the one before is its own."""
        self.promises.begin_life(job, self.driver.state.epoch)
        self.lines[job], self.best[job] = [], 0
        self.store[job], self.told_stored[job] = set(), set()
        self.waits.jobs.pop(job, None)
        self.books.submitted_s.pop(job, None)
        self.books.finished_s.pop(job, None)
        self.deleted.discard(job)
        self.granted.discard(job)
        self.lookup.show(job)

    def parted_in(self, run: Run) -> tuple[str, ...]:
        """Two nodes of the run that cannot reach each other; () where all can."""
        return next((two for two in sorted(self.parted) if set(two) <= set(run.nodes)), ())
