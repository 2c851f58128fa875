"""Figures of the jobs that are not over, by job, and of where their time went.

Made anew for each scrape, so that a job that is over is gone from the next one. Must not read
anything: what it tells of it is given.
"""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.driver.core.attempt.known_points import newest_stored
from holdfast.driver.core.state.model import Job, Phase, State
from holdfast.driver.people.goodput.account import Account
from holdfast.driver.people.goodput.pieces import Bucket
from holdfast.driver.people.how_far import furthest
from holdfast.driver.people.mfu import mfu
from holdfast.driver.watch import JobFigures

Figures = Callable[[str], JobFigures | None]

BAD = tuple(bucket for bucket in Bucket if bucket is not Bucket.KEPT)
"""All of them have a sample from a job's begin on: what begins with more than 0 no rate shows."""


class Jobs(Collector):
    """`accounts`: where the time of these jobs went; None: the journal could not be read."""

    def __init__(
        self,
        state: State,
        figures: Figures,
        accounts: Mapping[str, Account] | None,
        restarts: Mapping[str, int],
        *,
        now: float,
    ) -> None:
        self._state = state
        self._figures_of = figures
        self._accounts = accounts
        self._restarts = restarts
        self._now = now

    def collect(self) -> Iterator[Metric]:
        jobs = {name: job for name, job in self._state.jobs.items() if not job.finished}
        yield from self._figures(jobs)
        yield from self._time(jobs)
        yield from self._queue(jobs)

    def _figures(self, jobs: Mapping[str, Job]) -> Iterator[Metric]:
        """What is not known of a job it has no sample of."""
        live = {name: self._figures_of(name) for name in jobs}
        yield _by_job(
            "step",
            "Furthest step that all ranks completed.",
            {name: furthest(job, live[name]) for name, job in jobs.items()},
        )
        of = {
            "loss": ("Loss that a rank told last.", "loss"),
            "tokens_per_second": ("Tokens a second, all replicas.", "tokens_per_s"),
            "step_seconds": ("Median time of its latest steps.", "step_s"),
            "best_step_seconds": ("Median time of its fastest steps.", "best_step_s"),
        }
        for name, (says, field) in of.items():
            told = {job: getattr(seen, field) for job, seen in live.items() if seen is not None}
            yield _by_job(name, says, told)
        used = {name: mfu(job, live[name])[0] for name, job in jobs.items()}
        yield _by_job("mfu", "Model FLOPs utilization, a part of 1.", used)
        starts = {name: float(job.attempt) for name, job in jobs.items()}
        yield _by_job("attempt", "Starts of its ranks.", starts)
        yield _by_job(
            "checkpoint_age_seconds",
            "Since its newest checkpoint was acknowledged by its store.",
            {name: self._age_s(job) for name, job in jobs.items()},
        )

    def _age_s(self, job: Job) -> float | None:
        point = newest_stored(job)
        written_s = point.written_s if point is not None else None
        return None if written_s is None else max(0.0, self._now - written_s)

    def _time(self, jobs: Mapping[str, Job]) -> Iterator[Metric]:
        """Gauges: what seemed to be training is a standstill once that is found."""
        accounts = {name: self._accounts[name] for name in jobs} if self._accounts else {}
        known = "Whether it could be read where the time of jobs went (1) or not (0)."
        yield GaugeMetricFamily("holdfast_goodput_known", known, self._accounts is not None)
        kept = {n: each.buckets_s.get(Bucket.KEPT, 0.0) for n, each in accounts.items()}
        yield _by_job("goodput_seconds", "Training that was kept.", kept)
        bad = GaugeMetricFamily(
            "holdfast_job_badput_seconds",
            "Time that was not kept training, by what it was spent on.",
            labels=["job", "bucket"],
        )
        for name, account in accounts.items():
            for bucket in BAD:
                bad.add_metric([name, bucket.value], account.buckets_s.get(bucket, 0.0))
        yield bad
        ratio = {name: account.ettr for name, account in accounts.items()}
        yield _by_job("ettr", "Kept training by the time in which it was to run.", ratio)
        restarts = CounterMetricFamily(
            "holdfast_restarts", "Starts of ranks but for each job's first.", labels=["cause"]
        )
        for cause, count in self._restarts.items():
            restarts.add_metric([cause], count)
        yield restarts

    def _queue(self, jobs: Mapping[str, Job]) -> Iterator[Metric]:
        waits = [self._now - job.since_s for job in jobs.values() if job.phase is Phase.PENDING]
        yield GaugeMetricFamily("holdfast_queue_jobs", "Jobs without nodes.", len(waits))
        yield GaugeMetricFamily(
            "holdfast_queue_oldest_seconds",
            "How long the one waits that has waited longest.",
            max(0.0, *waits, 0.0),
        )


def _by_job(name: str, says: str, values: Mapping[str, float | None]) -> Metric:
    family = GaugeMetricFamily(f"holdfast_job_{name}", says, labels=["job"])
    for job, value in values.items():
        if value is not None:
            family.add_metric([job], value)
    return family
