"""How long each simulated job waited for what it could have had, and what recoveries cost.

Kept by the world, filled by `rules.bounds`. A job is *owed* training while it is wanted, a driver
is there, and enough nodes are well that nobody else has.
"""

import msgspec


class Recovery(msgspec.Struct, frozen=True):
    """From one end of training to the next beginning. Seconds are virtual, steps the job's."""

    job: str
    owed_s: float  # without training, though it could have trained
    repeated: int  # steps done again
    unavoidable: int  # of these, such as neither its nodes nor the store could have saved
    faults: int  # what went wrong in it, the first included


class Wait:
    """Of one job."""

    def __init__(self) -> None:
        self.best = 0  # the furthest step that was seen
        self.owed_s = 0.0  # since it got that far
        self.recovering_s: float | None = None  # owed since it stood still; None: it did not
        self.faults_before = 0  # of the world, when it stood still
        self.repeated = 0  # steps that the attempt which began last does again
        self.unavoidable = 0  # of these


class Measured(msgspec.Struct, frozen=True):
    """What one life came near to. Seconds are virtual."""

    to_running_s: float  # from a job's submission until it trained first, the longest
    longest_s: float  # that a job stood still, though it could have trained
    dearest: float  # recovery, as many times the best possible


class Waits:
    """Of one world."""

    def __init__(self) -> None:
        self.seen_s = 0.0  # when somebody last looked
        self.owed: set[str] = set()  # jobs that were owed training then
        self.jobs: dict[str, Wait] = {}
        self.longest_s = 0.0
        self.dearest = 0.0  # times the best possible
        self.running_s: dict[str, float] = {}  # by job: when it trained first
        self.out_s: dict[str, float] = {}  # by node: evicted, though it is well
        self.recoveries: list[Recovery] = []

    def of(self, job: str) -> Wait:
        return self.jobs.setdefault(job, Wait())
