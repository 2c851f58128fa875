"""The course of a case's training under a driver: the next trouble, and what is heard of it.

Made by `play`. Between two troubles nothing happens but a first step, so hours cost as much as
minutes.
"""

from functools import partial

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Job
from holdfast.lab.simulator.cases import ends
from holdfast.lab.simulator.cases.detectors import LOST_S, Detectors, lost, spot_of
from holdfast.lab.simulator.cases.training import Training
from holdfast.lab.simulator.cases.trouble import SETTLED_S, STEP_S, Manner, Trouble
from holdfast.lab.simulator.cases.world import JOB, CaseWorld
from holdfast.protocol.faults import Finding, Kind

ECHO_S, ECHOES = 0.01, 3
"""Peers that die of a death, and how soon; the others wait."""


class Course:
    """Of one life. `cured`: the job trains, and nothing more is to come of the cause."""

    def __init__(self, world: CaseWorld) -> None:
        self.world = world
        self.detectors = Detectors()
        self.cured = False

    def began(self, training: Training) -> None:
        """Ranks train."""
        training.go(self.world.now)
        self._see_progress(training)
        self._next(training)

    def _see_progress(self, training: Training) -> None:
        aim = self.world.books.best + 1
        self._later((aim - training.start) * STEP_S, training, partial(self._seen, training, aim))

    def _seen(self, training: Training, aim: int) -> None:
        if training.step(self.world.now) < aim:  # it paused meanwhile
            self._later(STEP_S, training, partial(self._seen, training, aim))
            return
        seen = e.ProgressSeen(job=JOB, epoch=training.epoch, step=aim)
        self.world.driver.receive(seen)

    def _next(self, training: Training) -> None:
        world = self.world
        trouble = world.cause.next(training.attempt, training.step(world.now))
        self.cured = trouble is None
        if trouble is None:
            self._later(SETTLED_S, training, partial(self._settled, training))
        else:
            self._later(trouble.after_s, training, partial(self._strikes, training, trouble))

    def _settled(self, training: Training) -> None:
        self.world.books.reached(training.step(self.world.now), self.world.now)
        self.world.over = True

    def _strikes(self, training: Training, trouble: Trouble) -> None:
        self.world.cause.struck(trouble)
        self.world.books.faults += 1
        match trouble.manner:
            case Manner.PAUSE:
                self._pause(training, trouble)
            case Manner.SILENCE:
                self._silence(training, trouble)
            case Manner.LOST:
                self._lose(training, trouble)
            case Manner.HANG:
                self.world.stand_still(training)
                self._hangs(training, trouble, self.world.now)
            case _:
                self._end(training, trouble)

    # ------------------------------------------------------------ a rank ends

    def _end(self, training: Training, trouble: Trouble) -> None:
        """A rank ends; some peers die of that, of which the driver hears."""
        assert trouble.node is not None
        world = self.world
        at = training.start if trouble.at_start else training.step(world.now)
        world.stand_still(training)
        self._rank_ends(training, trouble.node, trouble, at)
        rng = world.streams.of(JOB, "echoes")
        peers = [node for node in training.attempt.nodes if node != trouble.node]
        if trouble.manner is Manner.EXIT_ZERO and rng.random() < 0.5:
            self._hangs(training, trouble, world.now)
            return
        for node in rng.sample(peers, min(ECHOES, len(peers))):
            world.agenda.after(ECHO_S, partial(self._rank_ends, training, node, None, at))

    def _rank_ends(self, training: Training, name: str, trouble: Trouble | None, step: int) -> None:
        node = self.world.nodes[name]
        if node.training is not training or node.exits:
            return
        rank = training.places[name][0]
        status = ends.of(trouble, rank, step) if trouble is not None else ends.echo(rank, step)
        node.exits[rank] = status
        if len(node.exits) == len(training.places[name]):
            node.end_ranks()
        node.say_exits((status,))

    # ------------------------------------------------------------ nothing moves

    def _hangs(self, training: Training, trouble: Trouble, since_s: float) -> None:
        """The detectors find it, once it has lasted."""
        job = self._job(training)
        if job is not None:
            spot = spot_of(trouble.manner, training.step(self.world.now))
            after_s = self.detectors.acts_after_s(job, trouble.manner, spot)
            found = partial(self._found, training, trouble, since_s, spot)
            self.world.agenda.after(after_s, found)

    def _found(self, training: Training, trouble: Trouble, since_s: float, spot: str) -> None:
        job = self._job(training)
        if job is None or (trouble.manner is Manner.PAUSE and training.trains):
            return
        node, stood_s = trouble.node, self.world.now - since_s
        rank = training.places[node][0] if node is not None else None
        self._tell(self.detectors.hang(job, trouble.manner, node, rank, spot, stood_s))

    def _pause(self, training: Training, trouble: Trouble) -> None:
        """No step for a while, though the rank is at work: that is said, and that it is over."""
        now, job = self.world.now, self._job(training)
        training.pause(now)
        ends_in = partial(self._goes_on, training, trouble, now)
        self._later(trouble.lasts_s, training, ends_in)
        if job is not None:
            said_s = self.detectors.said_after_s(job)
            self._later(said_s, training, partial(self._said, training, trouble))
        self._hangs(training, trouble, now)

    def _said(self, training: Training, trouble: Trouble) -> None:
        job = self._job(training)
        if job is not None and not training.trains:
            step = training.step(self.world.now)
            told = self.detectors.standstill(job, Kind.STANDSTILL, trouble.node, step)
            self._tell(told)

    def _goes_on(self, training: Training, trouble: Trouble, since_s: float) -> None:
        job, now = self._job(training), self.world.now
        stood_s = now - since_s
        training.go(now - STEP_S / 2)  # it was in the middle of one
        if job is not None and stood_s > self.detectors.said_after_s(job):
            step = training.step(now)
            self._tell(self.detectors.standstill(job, Kind.GOES_ON, trouble.node, step))
        self.detectors.passed(stood_s)
        self.world.books.paused_s += stood_s
        self._later(STEP_S / 2, training, partial(self._next, training))

    # ------------------------------------------------------------ nodes are not heard

    def _silence(self, training: Training, trouble: Trouble) -> None:
        """The driver has no line to them; training goes on."""
        for name in trouble.silent:
            self._cut(name, trouble.lasts_s)
        self._later(trouble.lasts_s, training, partial(self._next, training))

    def _lose(self, training: Training, trouble: Trouble) -> None:
        """A node is cut off from everybody: its ranks hang, and its peers with them."""
        assert trouble.node is not None
        self.world.stand_still(training)
        self._cut(trouble.node, trouble.lasts_s)
        self.world.agenda.after(LOST_S, partial(self._lost, trouble.node))

    def _lost(self, node: str) -> None:
        if self.world.nodes[node].cut:
            self._tell(lost(node))

    def _cut(self, name: str, for_s: float) -> None:
        node = self.world.nodes[name]
        node.cut = True
        self.world.disconnect(node)
        self.world.agenda.after(for_s, partial(self._back, name))

    def _back(self, name: str) -> None:
        node = self.world.nodes[name]
        node.cut = False
        if not node.connected:
            self.world.connect(node)

    # ------------------------------------------------------------

    def _job(self, training: Training) -> Job | None:
        """The job, where this attempt is its current one."""
        job = self.world.driver.state.jobs.get(JOB)
        current = job is not None and not job.finished and job.epoch == training.epoch
        return job if current and job is not None and job.seated else None

    def _tell(self, finding: Finding) -> None:
        self.world.driver.receive(e.Found(finding=finding))

    def _later(self, after_s: float, training: Training, call: partial[None]) -> None:
        """Unless the attempt is over by then."""

        def then() -> None:
            if not training.over:
                call()

        self.world.agenda.after(max(0.0, after_s), then)
