"""`Client`: a driver for scripts and notebooks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.cli.client import path
from holdfast.client import models
from holdfast.client.asking import TIMEOUT_S, Driver
from holdfast.client.errors import ours
from holdfast.client.following import Event, Following
from holdfast.client.operations import Operations
from holdfast.client.pausing import pause
from holdfast.page.words import FINISHED

AWAY_S = 60.0
"""For which a lost driver is waited for: one that was killed is back after about a second."""


class Client(Operations):
    """A driver. Without arguments the one that runs here, as the command line finds it.

    `url` needs `token`, or `state`, or HOLDFAST_TOKEN. `run`: the name of a run below ./runs.
    Raises `HoldfastError` where there is none, as every method does where it is refused.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        state: str | Path | None = None,
        run: str | None = None,
        token: str | None = None,
        ca: str = "",
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._driver = Driver(url, state=state, run=run, token=token, ca=ca, timeout_s=timeout_s)

    def __repr__(self) -> str:
        return f"Client({self._driver.url!r})"

    def _ask(
        self,
        method: str,
        parts: Sequence[str | int],
        kind: Any,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        key: str | None = None,
    ) -> Any:
        return self._driver.ask(method, parts, kind, query=query, body=body, key=key)

    def submit(self, job: Mapping[str, Any] | str | Path, *, key: str | None = None) -> models.Done:
        """Submit a job: its document, or the file with it, in YAML or JSON."""
        return self.submit_document(document(job), key=key)

    def update(self, job: Mapping[str, Any] | str | Path, *, key: str | None = None) -> models.Done:
        """Have a job run another version of itself: its document as it is to be, or the file."""
        values = document(job)
        return self.update_document(name_in(values), values, key=key)

    def jobs(
        self,
        *,
        phase: Sequence[str] | None = None,
        label: Sequence[str] | None = None,
        name: str | None = None,
    ) -> list[models.Job]:
        """All jobs that this holds for, in the order in which they were submitted."""
        found: list[models.Job] = []
        page: str | None = None
        while True:
            told = self.jobs_page(phase=phase, label=label, name=name, page=page)
            found += told.items
            page = told.next
            if page is None:
                return found

    def readiness(self) -> models.Ready:
        """Whether new work is taken, and why not."""
        with ours():
            found = self._driver.found().readiness()
        return models.Ready(ready=found.ready, why=found.why, stale=found.stale)

    def logs(
        self,
        job: str,
        rank: int = 0,
        *,
        stream: str = "stdout",
        attempt: int | None = None,
        tail: int | None = None,
    ) -> str:
        """What a rank wrote so far."""
        query = {"stream": stream, "attempt": attempt, "tail": tail}
        parts = ("v1alpha1", "jobs", job, "ranks", rank, "logs")
        told: str = self._ask("GET", parts, None, query=query)
        return told

    def follow_logs(
        self, job: str, rank: int = 0, *, stream: str = "stdout", tail: int | None = None
    ) -> Iterator[str]:
        """What a rank of the newest attempt writes, piece by piece, until the job is over."""
        where = path("jobs", job, "ranks", rank, "logs")
        with ours():
            pieces = self._driver.found().stream(where, stream=stream, tail=tail, follow=True)
            for piece in pieces:
                yield piece.decode(errors="replace")

    def follow(
        self, job: str | None = None, *, after: int = 0, away_s: float = AWAY_S
    ) -> Following:
        """The journal's entries, of one job or of all, each once and in order, as they come.

        Goes on over lost connections and new drivers; a job's end with the job. `after`: begin
        behind this sequence. Raises `NotReachable` once nobody has answered for `away_s`.
        """
        over = never if job is None else Over(job, self.job, self.story)
        return Following(self._driver.found, job=job, after=after, away_s=away_s, over=over)

    def watch(self, job: str, *, period_s: float = 1.0) -> Iterator[models.Job]:
        """The job as it is, again and again, until it is over: step, loss, phase."""
        while True:
            found = self.job(job)
            yield found
            if found.phase in FINISHED:
                return
            pause(period_s)


def never(_event: Event) -> bool:
    return False


class Over:
    """Whether an event was the last of a job that is over."""

    def __init__(
        self,
        job: str,
        ask: Callable[[str], models.Job],
        story: Callable[..., models.Story],
    ) -> None:
        self._job, self._ask, self._story = job, ask, story
        self._last: int | None = None

    def __call__(self, event: Event) -> bool:
        """The story of a job that is over says which entry is its last."""
        if self._last is None and self._ask(self._job).phase in FINISHED:
            lines = self._story(self._job, whole=True, after=event.sequence - 1).lines
            self._last = max((line.sequence for line in lines), default=event.sequence)
        return self._last is not None and event.sequence >= self._last


def name_in(job: Mapping[str, Any]) -> str:
    """The job's name by its document; "" where that has none, which the driver then says."""
    metadata = job.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""


def document(job: Mapping[str, Any] | str | Path) -> Mapping[str, Any]:
    """The job's document. Raises `HoldfastError` with its mistakes, before anything is sent."""
    if isinstance(job, Mapping):
        return job
    from holdfast.cli import jobfile

    with ours():
        read = jobfile.read(Path(job))
        jobfile.check(read, on_this_machine=False)
    values: Mapping[str, Any] = read.values
    return values
