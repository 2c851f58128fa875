"""A simulated node's executor: obeys its newest desired state, and says what it observes.

Kept by the world, one for each machine that is up. Behaves as protocol.messages says: idempotent,
refuses an older (term, epoch), goes on when nobody hears it, says everything again on reconnect.
"""

from holdfast.driver.core import events as e
from holdfast.lab.simulator import checkpoints, connections, exams, training_run, words
from holdfast.lab.simulator.machines import ExamLie, Machine
from holdfast.lab.simulator.training import Run, start_of
from holdfast.lab.simulator.violation import require
from holdfast.lab.simulator.world import World
from holdfast.protocol.messages import (
    Desired,
    DiagnosticResult,
    RankStatus,
    Rendezvous,
    Stored,
)

FIRST_PORT = 20_000
LOOK_AGAIN_S = 5.0
"""How often an executor looks again at a store that hangs."""


class Executor:
    """One process; a new one after each death."""

    def __init__(self, world: World, machine: Machine, incarnation: str) -> None:
        self.world = world
        self.machine = machine
        self.incarnation = incarnation
        self.connected = False
        self.generation = 0
        self.desired: Desired | None = None
        self.settled = False  # what is desired is so
        self.run: Run | None = None
        self.exits: dict[int, RankStatus] = {}
        self.ended = ("", 0)  # job and epoch of these
        self.results: dict[str, tuple[DiagnosticResult, ...]] = {}
        self.looked = 0  # the epoch for which the store has been looked through
        self.store_port = 0
        self.store_lost = False  # ranks here were to meet at it

    # ------------------------------------------------------------ being told

    def obey(self, desired: Desired) -> None:
        """Take the desired state, unless it is older than what was taken."""
        told = (desired.term, desired.epoch)
        if told < self.machine.accepted:
            why = f"{told} is older than {self.machine.accepted}"
            self.say(
                e.DesiredRefused(node=self.machine.name, generation=desired.generation, why=why)
            )
            return
        same_term = desired.term == self.machine.accepted[0]  # a new one starts generations afresh
        if self.desired is not None and same_term and desired.generation <= self.generation:
            _same_meaning(self.desired, desired)
            return
        self.machine.accepted = told
        self.generation = desired.generation
        changed = self.desired is None or desired.epoch != self.desired.epoch
        self.desired = desired
        self.settled = False
        same = self.ended == (desired.job, desired.epoch)
        unseated = same and not self._has_seats(desired)
        if changed or (unseated and self.world.put_back):
            self.exits = {}
        if changed:
            self.store_port, self.store_lost = 0, False
        if desired.forget_job is not None:
            self.machine.memory.pop(desired.forget_job, None)
        delay_s = self.world.delay(self.machine.name, "obeys")
        if self.run is not None and not self._keeps(self.run, desired):
            grace = desired.stop != "kill"
            delay_s += 0.5 if grace else 0.01
            if self.machine.unkillable:
                return
            if self.machine.dies_s:
                self._die_slowly(self.run)
                return
            self.kill()
        self.world.agenda.after(delay_s, lambda: self._settle(desired))

    def _die_slowly(self, run: Run) -> None:
        """Whatever is desired by then, only then it can be."""

        def dead() -> None:
            if self.run is run:
                self.kill()
            if self.desired is not None and not self.settled:
                self._settle(self.desired)

        self.world.agenda.after(self.machine.dies_s, dead)

    def _keeps(self, run: Run, desired: Desired) -> bool:
        return self._has_seats(desired) and run.epoch == desired.epoch

    def _has_seats(self, desired: Desired) -> bool:
        return any(seat.node == self.machine.name for seat in desired.seats)

    def kill(self) -> None:
        """End the ranks that run here; their snapshots stay in memory."""
        run = self.run
        if run is None:
            return
        self.run = None
        now = self.world.now
        mine = run.snapshots(self.machine.name, now)
        kept = self.machine.memory.get(run.job.name, ())
        self.machine.memory[run.job.name] = (*mine, *kept)[:8]
        training_run.stand_still(self.world, run)

    def _settle(self, desired: Desired) -> None:
        if self.desired is not desired or self.machine.executor is not self:
            return
        self.settled = True
        if self._has_seats(desired) and self.run is None:
            self._start(desired)
        if desired.host_rendezvous and not self.store_port and not self.store_lost:
            self._host_rendezvous(desired)
        if desired.diagnostics and self.machine.exam is ExamLie.HANGS:
            pass
        elif desired.diagnostics and not any(order.members for order in desired.diagnostics):
            takes_s = self.world.rng(self.machine.name, "is tested").uniform(0.1, 8.0)
            self.world.agenda.after(takes_s, lambda: self._tried(desired))
        elif desired.diagnostics and self.world.tests_s:
            takes_s = self.world.rng(self.machine.name, "tests").uniform(1.0, self.world.tests_s)
            self.world.agenda.after(takes_s, lambda: self._tried(desired))
        elif desired.diagnostics:
            self._test(desired.diagnostics[0].id, desired)
        self.report()
        if desired.save is not None and desired.host_rendezvous:
            self._save(desired, desired.save)

    def _tried(self, desired: Desired) -> None:
        """Its tests are over: they took a while, in which much may have happened."""
        if self.desired is desired and self.machine.executor is self:
            self._test(desired.diagnostics[0].id, desired)
            self.report()

    def _save(self, desired: Desired, point: Stored) -> None:
        """Together with the other nodes, which were told the same; it takes a while."""

        def written() -> None:
            if self.desired is desired and self.machine.executor is self:
                checkpoints.save(self.world, desired, point)
                self.report()

        takes_s = self.world.rng(self.machine.name, "saves").uniform(0.1, 3.0)
        self.world.agenda.after(takes_s, written)

    def _host_rendezvous(self, desired: Desired) -> None:
        self.store_port = port = FIRST_PORT + self.world.number()
        lives_s, self.machine.store_lives_s = self.machine.store_lives_s, None
        if lives_s is not None:
            self.world.agenda.after(lives_s, lambda: self._store_ends(desired.epoch, port))

    def _store_ends(self, epoch: int, port: int) -> None:
        """Another one takes its place only while no rank has been told of it."""
        desired = self.desired
        if desired is None or (desired.epoch, self.store_port) != (epoch, port):
            return
        self.store_port, self.store_lost = 0, bool(desired.seats)
        if not self.store_lost:
            self._host_rendezvous(desired)
        self.report()

    def _start(self, desired: Desired) -> None:
        if self.exits or desired.job is None:
            return
        run = training_run.run_of(self.world, desired, start_of(desired.restore))
        self.run = run
        training_run.ranks_start(self.world, self.machine, run)
        if run.node_up(self.machine.name, self.world.now):
            training_run.ranks_meet(self.world, run, desired.rendezvous)

    def _test(self, number: str, desired: Desired) -> None:
        self.world.tested.add((self.machine.name, number))
        if number not in self.results:
            self.results[number] = exams.results(self.world, self.machine, desired.diagnostics)

    # ------------------------------------------------------------ saying

    def report(self) -> None:
        """Say everything that is observed."""
        desired = self.desired
        if desired is None or not self.settled:
            return
        if desired.job is not None:
            self._report_job(desired, desired.job)
        for number, results in self.results.items():
            if any(order.id == number for order in desired.diagnostics):
                self.say(e.DiagnosticEnded(node=self.machine.name, id=number, results=results))

    def _report_job(self, desired: Desired, job: str) -> None:
        name, epoch = self.machine.name, desired.epoch
        if self.run is not None and self.run.epoch == epoch:
            self.say(e.RanksRunning(job=job, epoch=epoch, node=name))
            self.say_stored(self.run)
        elif self.run is None and not self.exits:
            self._say_quiet(desired)
        if self.store_port:
            store = Rendezvous(address=name, port=self.store_port)
            self.say(e.RendezvousReady(job=job, epoch=epoch, node=name, rendezvous=store))
        if self.store_lost and self.run is not None:
            self.say(e.RendezvousLost(job=job, epoch=epoch, node=name))
        if self.exits:
            self.say(words.exited(self.world, self.machine, desired, tuple(self.exits.values())))

    def _say_quiet(self, desired: Desired) -> None:
        """What is in memory at once; what the store holds when it has been looked through."""
        if desired.host_rendezvous and self.machine.name in self.world.lookup.hung:
            self._look_in_vain(desired)
            return
        looks_s = self.world.lookup.looks_s if desired.host_rendezvous else 0.0
        if not looks_s or self.looked == desired.epoch:
            self.say(words.quiet(self.world, self.machine, desired, looks=desired.host_rendezvous))
            return
        nothing = "nothing found so far"
        self.say(words.quiet(self.world, self.machine, desired, looking=nothing))

        def looked() -> None:
            if self.desired is desired and self.machine.executor is self and self.run is None:
                self.looked = desired.epoch
                self.say(words.quiet(self.world, self.machine, desired, looks=True))

        self.world.agenda.after(looks_s, looked)

    def _look_in_vain(self, desired: Desired) -> None:
        """The store hangs here: what it holds is not known until it does no more."""
        error = "the store does not answer"
        self.say(words.quiet(self.world, self.machine, desired, looking=error, error=error))

        def again() -> None:
            if self.desired is desired and self.machine.executor is self and self.run is None:
                self._say_quiet(desired)

        self.world.agenda.after(LOOK_AGAIN_S, again)

    def say_stored(self, run: Run) -> None:
        """The newest checkpoint that ranks of this run wrote: only where rank 0 is."""
        step = run.newest_stored(self.world.now)
        if step is not None and 0 in run.ranks[self.machine.name]:
            job, node = run.job.name, self.machine.name
            self.say(e.CheckpointStored(job=job, epoch=run.epoch, node=node, step=step))

    def rank_ends(self, rank: int, *, code: int = 0, signal: int = 0, error: str = "") -> None:
        """A rank ends by itself, or of something. `error` is an exception's name, or "echo"."""
        run = self.run
        desired = self.desired
        if run is None or rank in self.exits or desired is None or desired.job is None:
            return
        if self.machine.dies_s and run.epoch != desired.epoch:
            return  # it is to be gone, and nobody asks how it ended
        if error != "echo" and (code or signal):
            self.world.victims.add((desired.job, rank))
        order, step = len(self.exits) + 1, run.step(self.world.now)
        sealed = self._has_snapshots(run, rank)
        status = words.ended(rank, code, signal, error, order=order, step=step, sealed=sealed)
        self.exits[rank], self.ended = status, (run.job.name, run.epoch)
        if set(self.exits) >= set(run.ranks[self.machine.name]):
            self.kill()
        if run.epoch == desired.epoch:
            self.say(words.exited(self.world, self.machine, desired, (status,)))

    def _has_snapshots(self, run: Run, rank: int) -> bool:
        now = run.snapshots(self.machine.name, self.world.now)
        before = self.machine.memory.get(run.job.name, ())
        return any(each.rank == rank for each in (*now, *before))

    def say(self, event: e.AnyEvent) -> None:
        if self.connected:
            connections.send(self.world, event, self)


def _same_meaning(old: Desired, new: Desired) -> None:
    """The same generation never says two things."""
    same = (old.generation, old.term) != (new.generation, new.term) or old == new
    require("one-generation-one-meaning", same, f"{old} and {new}")
