"""The simulated world: machines, network, store, training, and the one driver in the middle.

Made by `simulate` for one scenario. Knows the truth, which it tells the driver only as executors,
cluster and detectors would: late, twice, out of order, or not at all.
"""

from collections import Counter
from functools import partial
from random import Random

from holdfast.driver.core import events as e
from holdfast.lab.simulator.agenda import Agenda
from holdfast.lab.simulator.books import Books
from holdfast.lab.simulator.driver import Driver
from holdfast.lab.simulator.executor import Executor, Machine
from holdfast.lab.simulator.invariants import Broken
from holdfast.lab.simulator.scenario import FIRST_STEP_S, STEP_S, Scenario, SimJob
from holdfast.lab.simulator.shelf import Shelf
from holdfast.lab.simulator.streams import Streams
from holdfast.lab.simulator.training import Run
from holdfast.protocol.faults import Blame, Finding, Kind, Weight
from holdfast.protocol.messages import Desired, Rendezvous, Restore, Stored, Task

UNANSWERED_S = (10.0, 20.0)
"""Within which an executor leaves a driver that answers no ping: see
docs/decisions/when-many-nodes-reconnect.md."""


class World:
    """Everything that is, for one scenario."""

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
        self.lines: dict[str, list[tuple[int, int]]] = {name: [] for name in self.jobs}
        self.best: dict[str, int] = dict.fromkeys(self.jobs, 0)
        self.store: dict[str, set[tuple[int, int]]] = {name: set() for name in self.jobs}
        self.store_up = True
        self.shelf = Shelf()
        self.told_stored: dict[str, set[tuple[int, int]]] = {name: set() for name in self.jobs}
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
        self._count = 0
        self.driver = Driver(self)

    # ------------------------------------------------------------ network

    def rng(self, subject: str, purpose: str) -> Random:
        """Chance for one purpose with one node or job: draws elsewhere do not move it."""
        return self.streams.of(subject, purpose)

    def delay(self, subject: str, purpose: str) -> float:
        """Seconds that something small takes."""
        return self.rng(subject, purpose).uniform(0.001, 0.02)

    def port(self) -> int:
        self._count += 1
        return 20_000 + self._count

    def send(self, event: e.AnyEvent, executor: Executor) -> None:
        """From an executor to the driver: mostly soon, sometimes late, twice, or with the line."""
        rng = self.rng(executor.machine.name, f"says {type(event).__name__}")
        soon_s, late_s, again_s = rng.uniform(0.001, 0.02), rng.uniform(0.0, 5.0), rng.uniform(0, 8)
        dice = rng.random() if self.noisy else 1.0
        if dice < 0.01:
            self.agenda.after(soon_s, lambda: self.reset_line(executor))
            return
        arrives_s = soon_s if dice > 0.05 else soon_s + late_s
        self.agenda.after(arrives_s, lambda: self.driver.receive(event))
        if dice < 0.03:
            self.agenda.after(again_s, lambda: self.driver.receive(event))

    def tell(self, desired: Desired) -> None:
        """From the driver to an executor that is connected."""
        known = self.driver.state.nodes.get(desired.node)
        if known is None or known.told.generation < desired.generation:
            raise Broken("journal-before-effect", f"{desired.node} is told what is not committed")
        executor = self.machines[desired.node].executor
        if executor is not None and executor.connected:
            soon_s = self.delay(desired.node, "is told")
            self.agenda.after(soon_s, lambda: self._arrive(executor, desired))

    def _arrive(self, executor: Executor, desired: Desired) -> None:
        machine = executor.machine
        if machine.executor is executor and not machine.cut:
            executor.obey(desired)

    def call(self, node: str, outcome: e.AnyEvent) -> None:
        """A call to the cluster: its outcome comes later, perhaps twice; some fail."""
        rng = self.rng(node, f"call {type(outcome).__name__}")
        soon_s, late_s, again_s = rng.uniform(0.001, 0.02), rng.uniform(0, 10), rng.uniform(0, 20)
        dice = rng.random() if self.noisy else 1.0
        if dice < 0.02:
            outcome = _failure(outcome, node, unfit=dice < 0.01, late=dice < 0.005)
        elif dice < 0.04:
            self.agenda.after(again_s, lambda: self.driver.receive(outcome))
        done_s = soon_s if dice > 0.1 else soon_s + late_s
        self.agenda.after(done_s, lambda: self._done(node, outcome))

    def _done(self, node: str, outcome: e.AnyEvent) -> None:
        if isinstance(outcome, e.NodeDistrusted | e.NodeTrusted):
            self.machines[node].marked = isinstance(outcome, e.NodeDistrusted)
        self.driver.receive(outcome)

    def appear(self, machine: Machine) -> None:
        """The cluster says what the node is."""
        closed = "it is cordoned" if machine.cordoned else ""
        event = e.NodeAppeared(
            node=machine.name, rack=machine.rack, closed=closed, unmarked=not machine.marked
        )
        self.driver.receive(event)

    # ------------------------------------------------------------ connections and processes

    def boot(self, machine: Machine) -> None:
        """Start the node's executor, which then connects."""
        self._count += 1
        machine.executor = Executor(self, machine, f"{machine.name}-{self._count}")
        self.agenda.after(self.delay(machine.name, "boots"), lambda: self.connect(machine))

    def connect(self, machine: Machine) -> None:
        executor = machine.executor
        if executor is None or executor.connected or machine.cut or not machine.up:
            return
        if not self.driver.alive or self.driver.frozen:
            again_s = self.rng(machine.name, "tries again").uniform(0.1, 2.0)
            self.agenda.after(again_s, lambda: self.connect(machine))
            return
        executor.connected = True
        self.driver.receive(
            e.ExecutorConnected(
                node=machine.name,
                incarnation=executor.incarnation,
                address=f"10.0.0.{machine.name}",
                generation=executor.generation,
                epoch=machine.accepted[1],
            )
        )
        told = self.driver.told.get(machine.name)
        if told is not None:
            self.tell(told)
        executor.report()

    def disconnect(self, executor: Executor, *, noticed_s: float) -> None:
        """The line is dead; the driver notices later, unless it has a newer one by then."""
        if not executor.connected:
            return
        executor.connected = False
        event = e.ExecutorDisconnected(node=executor.machine.name, incarnation=executor.incarnation)

        def notice() -> None:
            newest = executor.machine.executor
            if newest is None or not newest.connected:
                self.driver.receive(event)

        self.agenda.after(noticed_s, notice)

    def reset_line(self, executor: Executor) -> None:
        self.disconnect(executor, noticed_s=0.0)
        machine = executor.machine
        back_s = self.rng(machine.name, "connects again").uniform(0.1, 2.0)
        self.agenda.after(back_s, lambda: self.connect(machine))

    def freeze_driver(self, for_s: float) -> None:
        """Executors whose pings it does not answer leave it, and come back."""
        self.driver.freeze(for_s)
        for machine in self.machines.values():
            if machine.executor is not None and machine.executor.connected:
                left_s = self.rng(machine.name, "gives the driver up").uniform(*UNANSWERED_S)
                if left_s < for_s:
                    self.agenda.after(left_s, partial(self._gives_up, machine.executor))

    def _gives_up(self, executor: Executor) -> None:
        if self.driver.frozen:
            self.reset_line(executor)

    def end_executor(self, machine: Machine, *, noticed_s: float) -> None:
        executor = machine.executor
        if executor is not None:
            executor.kill()
            machine.executor = None
            self.disconnect(executor, noticed_s=noticed_s)

    def driver_died(self) -> None:
        for machine in self.machines.values():
            if machine.executor is not None:
                machine.executor.connected = False
        back_s = self.rng("driver", "returns").uniform(0.1, 5.0)
        self.agenda.after(back_s, self.driver_returns)

    def driver_returns(self) -> None:
        if self.driver.alive:
            return
        self.driver.start()
        for machine in self.machines.values():
            found_s = self.rng(machine.name, "finds a new driver").uniform(0.0, 2.0)
            self.agenda.after(found_s, partial(self.connect, machine))
        for run in list(self.runs.values()):
            self._watch_progress(run)

    # ------------------------------------------------------------ training

    def run_of(self, desired: Desired, start: int) -> Run:
        """The run of an epoch, made when its first ranks start."""
        assert desired.job is not None
        key = (desired.job, desired.epoch)
        if key not in self.runs:
            self._check_restore(desired)
            self._check_start(desired.job, start)
            best, possible = self.best[desired.job], self._possible(desired.job)
            self.books.began(desired.job, start, best=best, possible=possible)
            self.lines[desired.job].append((desired.epoch, start))
            self.runs[key] = Run(self.jobs[desired.job], desired.epoch, desired.seats, start)
        return self.runs[key]

    def _check_restore(self, desired: Desired) -> None:
        """What is restored lies on the line of training, and is really there."""
        point = desired.restore
        if point is None or desired.job is None:
            return
        later = [start for epoch, start in self.lines[desired.job] if epoch > point.epoch]
        if any(start < point.step for start in later):
            raise Broken("restore-on-the-line", f"{point} was rolled back by a start from {later}")
        if not self._is_there(desired, point):
            raise Broken("restore-is-there", f"nobody has {point}")

    def _is_there(self, desired: Desired, point: Restore) -> bool:
        assert desired.job is not None
        if point.source == "store":
            return (point.step, point.epoch) in self.all_stored(desired.job)
        for seat in desired.seats:
            held = self.machines[seat.node].memory.get(desired.job, ())
            same = [
                s for s in held if (s.rank, s.step, s.epoch) == (seat.rank, point.step, point.epoch)
            ]
            if not same and self.machines[seat.node].up:
                return False
        return True

    def ranks_start(self, machine: Machine, run: Run) -> None:
        """Nothing of an older epoch runs where this one starts."""
        for node in run.nodes:
            other = self.machines[node].executor
            if other is not None and other.run is not None and other.run.epoch < run.epoch:
                text = f"{machine.name} starts {run.epoch} while {node} runs {other.run.epoch}"
                raise Broken("one-epoch-at-a-time", text)

    def ranks_meet(self, run: Run, rendezvous: Rendezvous | None) -> None:
        """All are up: they train, or wait at a store that is gone, and nothing says so but it."""
        assert rendezvous is not None
        host = self.machines[rendezvous.address].executor
        meet = host is not None and host.store_port == rendezvous.port
        if meet and self.parted_in(run) and run.start < run.job.steps:
            run.stand_still(self.agenda.now)
            self.agenda.after(4.0, lambda: self._watch_still(run))
            return
        if meet:
            self._training_begins(run)
            return
        run.stand_still(self.agenda.now)
        self.agenda.after(FIRST_STEP_S, lambda: self._watch_still(run))

    def parted_in(self, run: Run) -> tuple[str, ...]:
        """Two nodes of the run that cannot reach each other; () where all can."""
        return next((two for two in sorted(self.parted) if set(two) <= set(run.nodes)), ())

    def _training_begins(self, run: Run) -> None:
        steps = run.job.steps - run.start
        self.agenda.after(max(0.0, steps * STEP_S), lambda: self._finish(run))
        self._watch_progress(run)
        self._store_next(run)
        if any(self.machines[node].bad for node in run.nodes):
            self.agenda.after(1.2, lambda: self.stand_still(run, echo=False))
        for node in run.nodes:
            lemon_s = self.machines[node].lemon_s
            if lemon_s is not None:
                self.agenda.after(lemon_s, partial(self.sour, run, node))
        self._approach_bug(run)

    def plant_bug(self, name: str, step: int) -> None:
        """From now on the job's own code raises at this step, always."""
        self.bugs.setdefault(name, step)
        for run in list(self.runs.values()):
            if run.job.name == name and run.training:
                self._approach_bug(run)

    def _approach_bug(self, run: Run) -> None:
        bug = self.bugs.get(run.job.name)
        if bug is not None and run.since_s is not None:
            left_s = run.since_s + (bug - run.start) * STEP_S - self.agenda.now
            if left_s >= 0:
                self.agenda.after(left_s, lambda: self._meet_bug(run))

    def _meet_bug(self, run: Run) -> None:
        executor = self.machines[run.nodes[-1]].executor
        if run.training and executor is not None and executor.run is run:
            self.raise_in(run, executor)

    def raise_in(self, run: Run, executor: Executor) -> None:
        """The user's own code raises in one rank; its peers lose it."""
        self.raised[run.job.name, run.step(self.agenda.now)] += 1
        executor.rank_ends(run.ranks[executor.machine.name][0], code=1, error="ValueError")
        self.stand_still(run)

    def sour(self, run: Run, node: str) -> None:
        """A rank on a lemon dies of a signal."""
        executor = self.machines[node].executor
        if run.training and executor is not None and executor.run is run:
            executor.rank_ends(run.ranks[node][0], signal=11)
            self.stand_still(run)

    def _finish(self, run: Run) -> None:
        if not run.training:
            return
        for node in run.nodes:
            executor = self.machines[node].executor
            if executor is not None and executor.run is run:
                for rank in run.ranks[node]:
                    executor.rank_ends(rank)
        self.stand_still(run, echo=False)

    def stand_still(self, run: Run, *, echo: bool = True) -> None:
        """The run gets no further: some peers die of it, the others wait for ever."""
        if run.ended is not None:
            return
        run.stand_still(self.agenda.now)
        name = run.job.name
        self.best[name] = max(self.best[name], run.step(self.agenda.now))
        self.store[name] |= run.stored(self.agenda.now)
        self.agenda.after(4.0, lambda: self._watch_still(run))
        if not echo:
            return
        for node in run.nodes:
            rng = self.rng(node, "loses a peer")
            soon_s = rng.uniform(0.001, 0.02)
            if rng.random() < 0.6:
                self.agenda.after(soon_s, partial(self._echo, run, node))

    def _echo(self, run: Run, node: str) -> None:
        executor = self.machines[node].executor
        if executor is not None and executor.run is run:
            executor.rank_ends(run.ranks[node][0], code=1, error="echo")

    def step_of(self, job: str, epoch: int) -> int | None:
        run = self.runs.get((job, epoch))
        return run.step(self.agenda.now) if run is not None else None

    def look_up(self, job: str) -> tuple[tuple[Stored, ...], tuple[Stored, ...], str]:
        """Whole checkpoints in the store, damaged ones, or why they cannot be known."""
        if not self.jobs[job].store_every:
            return (), (), ""
        if not self.store_up:
            return (), (), "the store does not answer"
        shown, damaged = self.shelf.look(job, self.all_stored(job))
        if damaged and not shown:
            return (), (), "Input/output error"
        return tuple(Stored(step=step, epoch=epoch) for step, epoch in sorted(shown)), damaged, ""

    def grant(self, name: str) -> None:
        """A person has the job begin anew."""
        if self.driver.request(e.ResumeRequested(job=name, from_step=0)):
            self.granted.add(name)

    def acknowledged(self, event: e.CheckpointStored) -> None:
        """The driver has it in its journal: somebody may rely on it from now on."""
        self.told_stored[event.job].add((event.step, event.epoch))

    def _possible(self, name: str) -> int:
        """The last step that could be restored now by one who knew where everything is."""
        stored = {at for at in self.all_stored(name) if (name, at) not in self.shelf.sick}
        held = Counter(
            point
            for machine in self.machines.values()
            if machine.up
            for point in {(s.step, s.epoch, s.rank) for s in machine.memory.get(name, ())}
        )
        ranks = self.jobs[name].nodes * self.jobs[name].ranks_per_node
        whole = Counter((step, epoch) for step, epoch, _ in held)
        points = stored | {point for point, count in whole.items() if count == ranks}
        return max((step for step, epoch in points if self._on_line(name, step, epoch)), default=0)

    def _on_line(self, name: str, step: int, epoch: int) -> bool:
        """Whether no later attempt began before it."""
        return all(begun >= step for later, begun in self.lines[name] if later > epoch)

    def _check_start(self, name: str, start: int) -> None:
        """No job goes behind what was acknowledged, but where that cannot be read, or a person says
        so."""
        held = [
            step
            for step, epoch in self.told_stored[name]
            if self._on_line(name, step, epoch) and (name, (step, epoch)) not in self.shelf.was_sick
        ]
        if start < max(held, default=0) and name not in self.granted:
            raise Broken(
                "no-start-behind-what-was-acknowledged", f"{name} from {start}, had {max(held)}"
            )
        self.granted.discard(name)

    def _store_next(self, run: Run) -> None:
        """The next step that is due reaches the store; the executor of rank 0 tells of it."""
        every = run.job.store_every
        if not every or not run.training or run.since_s is None:
            return
        step = (run.step(self.agenda.now) // every + 1) * every
        due_s = run.since_s + (step - run.start) * STEP_S + 0.02

        def written() -> None:
            executor = self.machines[run.nodes[0]].executor
            if run.training and executor is not None and executor.run is run:
                executor.say_stored(run)
            self._store_next(run)

        if step <= run.job.steps:
            self.agenda.after(max(0.0, due_s - self.agenda.now), written)

    def save(self, desired: Desired, point: Stored) -> None:
        """Write what all ranks have of this step, if they all have it and the store takes it."""
        assert desired.job is not None
        held = {
            snapshot.rank
            for machine in self.machines.values()
            if machine.up and not machine.cut
            for snapshot in machine.memory.get(desired.job, ())
            if (snapshot.step, snapshot.epoch) == (point.step, point.epoch)
        }
        job = self.jobs[desired.job]
        if self.store_up and held == set(range(job.nodes * job.ranks_per_node)):
            self.store[desired.job].add((point.step, point.epoch))

    def all_stored(self, job: str) -> set[tuple[int, int]]:
        live = [run for (name, _), run in self.runs.items() if name == job and run.training]
        return self.store[job].union(*(run.stored(self.agenda.now) for run in live))

    # ------------------------------------------------------------ what detectors see

    def _watch_progress(self, run: Run) -> None:
        """Tell of the first step that no epoch had reached, as the driver's detectors would."""
        if not run.training:
            return
        aim = self.best[run.job.name] + 1
        if aim > run.job.steps or run.since_s is None:
            return
        due_s = run.since_s + (aim - run.start) * STEP_S + 0.01

        def see() -> None:
            if run.training and run.step(self.agenda.now) >= aim:
                self.driver.receive(e.ProgressSeen(job=run.job.name, epoch=run.epoch, step=aim))

        self.agenda.after(max(0.0, due_s - self.agenda.now), see)

    def _watch_still(self, run: Run) -> None:
        """Ranks that stand still are found, for as long as they do."""
        if self.driver.frozen:
            self.agenda.after(4.0, lambda: self._watch_still(run))
            return
        job = self.driver.state.jobs.get(run.job.name)
        if job is None or job.finished or job.epoch != run.epoch or not job.seated:
            return
        if run.ended == run.job.steps:
            return
        culprits = [node for node in run.nodes if self.machines[node].bad]
        apart = () if culprits else self.parted_in(run)
        finding = Finding(
            kind=Kind.UNREACHABLE if apart else Kind.HANG,
            weight=Weight.SUSPECT,
            blame=Blame.UNKNOWN,
            job=run.job.name,
            epoch=run.epoch,
            node=None if apart else (*culprits, run.nodes[0])[0],
            apart=apart,
            step=run.step(self.agenda.now),
            summary=f"ranks of {run.job.name} stand still",
        )
        self.driver.receive(e.Found(finding=finding))
        self.agenda.after(4.0, lambda: self._watch_still(run))

    def same_generation(self, old: Desired, new: Desired) -> None:
        """The same generation never says two things."""
        if (old.generation, old.term) == (new.generation, new.term) and old != new:
            raise Broken("one-generation-one-meaning", f"{old} and {new}")

    def submit(self, job: SimJob) -> None:
        """A person submits it, again and again until it is acknowledged."""
        store = "file:///store" if job.store_every else ""
        plan = e.Plan(
            task=Task(
                command=("train",),
                workdir=".",
                store_url=store,
                store_interval_steps=job.store_every,
            ),
            nodes=job.nodes,
            ranks_per_node=job.ranks_per_node,
            standbys=job.standbys,
            suspend=job.suspend,
            deadline_s=job.deadline_s,
            start_s=60.0,
            grace_s=5.0,
        )
        if self.driver.request(e.JobSubmitted(job=job.name, plan=plan)):
            self.submitted.add(job.name)
            self.books.submitted(job.name, self.agenda.now)
        elif job.name not in self.driver.state.jobs:
            self.agenda.after(1.0, lambda: self.submit(job))


def _failure(outcome: e.AnyEvent, node: str, *, unfit: bool, late: bool) -> e.AnyEvent:
    """How the same call ends when it fails."""
    match outcome:
        case e.NodeAllocated(job=job, cause=cause):
            return e.AllocationFailed(
                job=job, node=node, why="no room", unfit=unfit, late=late, cause=cause
            )
        case e.NodeReleased(cause=cause):
            return e.ClusterCallFailed(call="release", node=node, why="409", cause=cause)
        case e.NodeDistrusted(cause=cause):
            return e.ClusterCallFailed(call="distrust", node=node, why="409", cause=cause)
        case _:
            return e.ClusterCallFailed(call="trust", node=node, why="409", cause=outcome.cause)
