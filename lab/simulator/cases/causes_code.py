"""Causes that are in no node: what passes, the job's own code and data, and the driver's view."""

from random import Random

from holdfast.lab.simulator.cases.cause import Cause, steps_s
from holdfast.lab.simulator.cases.trouble import STEP_S, Attempt, Manner, Trouble

HOUR_S = 3_600.0
SAVED_EVERY = 600
"""Steps that all jobs save, wherever they save."""
CUDA_ERROR = "RuntimeError: CUDA error: unspecified launch failure"
"""Words of a device: where it is noticed says nothing."""


class Passing(Cause):
    """One fault, once."""

    names = frozenset({"passing"})

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        if self.count:
            return None
        manner = self.rng.choice((Manner.SIGNAL, Manner.SIGNAL, Manner.EXCEPTION, Manner.HANG))
        words = CUDA_ERROR if manner is Manner.EXCEPTION else ""
        within_s = self.rng.choice(((1.0, 60.0), (60.0, HOUR_S)))  # as often soon after a start
        after_s, node = self.rng.uniform(*within_s), self.rng.choice(attempt.nodes)
        return Trouble(after_s=after_s, manner=manner, node=node, words=words)


class CrashingCode(Cause):
    """The code dies of a signal each five minutes, anywhere, and gets on all the same."""

    names = frozenset({"passing", "user"})
    lasts_s = 16 * HOUR_S

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.times = rng.randint(30, 60)

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        if self.count >= self.times:
            return None
        after_s, node = self.rng.uniform(200.0, 400.0), self.rng.choice(attempt.nodes)
        return Trouble(after_s=after_s, manner=Manner.SIGNAL, node=node)


class HangingCode(CrashingCode):
    """The code waits for itself as often: the detectors name some rank, or nobody."""

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        if self.count >= self.times:
            return None
        after_s, node = self.rng.uniform(200.0, 400.0), self.rng.choice(attempt.nodes)
        named = self.rng.choice((node, node, None))
        return Trouble(after_s=after_s, manner=Manner.HANG, node=named)


class AtStep(Cause):
    """The job's own code fails at one step, at one place of the rank table, always."""

    names = frozenset({"user"})
    hopeless = True
    blocks = True
    manner = Manner.EXCEPTION
    words = ""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.at, self.place = rng.randint(1, 2_000), rng.random()

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        node = attempt.nodes[int(self.place * len(attempt.nodes))]
        left_s = steps_s(step, self.at)
        return Trouble(after_s=left_s, manner=self.manner, node=node, words=self.words)


class UserError(AtStep):
    """It raises."""

    words = "ValueError: expected 1024 tokens, got 1023"


class CrashAtStep(AtStep):
    """It dies of a signal there, as native code does: where no other node may take the place this
    looks as `LemonAtStep` does."""

    manner = Manner.SIGNAL


class UserErrorOnce(UserError):
    """It raises, and not again."""

    names = frozenset({"user", "passing"})
    hopeless = blocks = False

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        return None if self.count else super().next(attempt, step)


class ExitZero(AtStep):
    """One rank ends with exit code 0 while its peers train."""

    manner = Manner.EXIT_ZERO
    least_nodes = 2


class TooLarge(AtStep):
    """The job itself needs more memory than there is."""

    manner = Manner.OUT_OF_MEMORY


class BadVersion(Cause):
    """The job's newest version dies anywhere, of a signal or of what it raises; the one before it
    ran well."""

    names = frozenset({"version"})
    versions = 2

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.within_s = rng.choice(((5.0, 60.0), (60.0, 900.0)))

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        if attempt.version < self.versions:
            return None
        manner = self.rng.choice((Manner.SIGNAL, Manner.EXCEPTION))
        words = "RuntimeError: kernel image is stale" if manner is Manner.EXCEPTION else ""
        after_s, node = self.rng.uniform(*self.within_s), self.rng.choice(attempt.nodes)
        return Trouble(after_s=after_s, manner=manner, node=node, words=words)


class PoisonedPoint(Cause):
    """After one fault that passes, ranks die at their start from all that was saved since some
    step. Older points are good, and once the job is past that step again so are newer ones."""

    names = frozenset({"point"})
    blocks = True

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.first_s = rng.uniform(1_200.0, HOUR_S)
        self.back = rng.choice((20, 60, 400))  # steps before the fault since which it is so
        self.since: int | None = None
        self.dies = rng.choice((Manner.EXCEPTION, Manner.SIGNAL))

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        node = self.rng.choice(attempt.nodes)
        if self.since is None:
            self.since = step + int(self.first_s) - self.back
            return Trouble(after_s=self.first_s, manner=Manner.SIGNAL, node=node)
        if attempt.start < self.since:
            return None
        words = "RuntimeError: loss is nan" if self.dies is Manner.EXCEPTION else ""
        return Trouble(after_s=0.5, manner=self.dies, node=node, words=words, at_start=True)


class PoisonedStep(PoisonedPoint):
    """The same of one step alone, that has just been saved, both in memory and in the store. (Of a
    job with one node the oracle, which takes it for `PoisonedPoint`, believes the script.)"""

    least_nodes = 2

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.first_s = SAVED_EVERY * rng.randint(2, 6) * STEP_S + STEP_S / 2
        self.back = 0


class LongEvaluation(Cause):
    """Now and then no step is made for long: the job evaluates, and goes on by itself."""

    names = frozenset({"pause"})
    lasts_s = 24 * HOUR_S

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.every, self.takes_s = rng.randint(200, 1_500), 20.0 * 45.0 ** rng.random()
        self.last = self.every * rng.randint(2, 5)

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        aim = (step // self.every + 1) * self.every
        if aim > self.last:
            return None
        return Trouble(
            after_s=steps_s(step, aim) - STEP_S / 2,  # in the middle of that step
            manner=Manner.PAUSE,
            node=attempt.nodes[0],
            lasts_s=self.takes_s * self.rng.uniform(0.9, 1.1),
        )


class MassSilence(Cause):
    """The driver does not hear of many nodes, once or a few times; nothing is wrong with them."""

    names = frozenset({"blind"})
    least_nodes = 4

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.times, self.share = rng.randint(1, 3), rng.choice((0.5, 0.75, 1.0))

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        if self.count >= self.times:
            return None
        many = max(2, int(self.share * len(attempt.nodes)))
        return Trouble(
            after_s=self.rng.uniform(300.0, HOUR_S),
            manner=Manner.SILENCE,
            lasts_s=self.rng.uniform(30.0, 180.0),
            silent=tuple(self.rng.sample(attempt.nodes, many)),
        )
