"""The lives of all jobs as the journal tells them, read once and then only what is new.

One a process: kept by the driver's REST application, made anew by the command line where no driver
runs. Of a journal's entries those alone are read from which on a job did something else, about ten
for each start of its ranks however many those are; later looks read what was written since.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from threading import Lock

from holdfast.driver.core.state.model import Job, State
from holdfast.driver.noted import What
from holdfast.driver.people.goodput.account import NO_FAULT, Account, known_pieces, summed
from holdfast.driver.people.goodput.fleet import Fleet, fleet_of
from holdfast.driver.people.goodput.marks import Life, take
from holdfast.driver.people.goodput.pieces import Piece, pieces_of
from holdfast.driver.ports import Entry, Journal

PAGE_ENTRIES = 1_000
KEPT_S = 92 * 86_400.0
"""So long after its end a job is kept that the state has dropped: a quarter, the longest window of
which people ask what it cost."""


class Ledger:
    """May be asked by several threads."""

    def __init__(self) -> None:
        self._lives: dict[str, list[Life]] = {}
        self._after = 0
        self.restarts: Counter[str] = Counter()  # of ranks, by the kind of incident or NO_FAULT
        self._lock = Lock()

    def account(self, journal: Journal, state: State, job: Job, *, now: float) -> Account:
        """Raises `TemporaryError` where the journal cannot be read."""
        with self._lock:
            self._read(journal, state, now)
            return self._account(state, job, now)

    def accounts(self, journal: Journal, state: State, *, now: float) -> dict[str, Account]:
        """Of each job that is not over, by name. Raises as `account` does."""
        with self._lock:
            self._read(journal, state, now)
            under_way = ((name, job) for name, job in state.jobs.items() if not job.finished)
            return {name: self._account(state, job, now) for name, job in under_way}

    def fleet(self, journal: Journal, state: State, *, now: float, since_s: float) -> Fleet:
        """Of all jobs since then, those that were deleted too. Raises as `account` does."""
        with self._lock:
            self._read(journal, state, now)
            return fleet_of(self._pieces(state, now), state.incidents, since_s=since_s)

    def _account(self, state: State, job: Job, now: float) -> Account:
        pieces = known_pieces(self._life_of(job), job, state.incidents, now=now)
        return summed(job.name, pieces, state.incidents)

    def _pieces(self, state: State, now: float) -> Iterator[tuple[str, list[Piece]]]:
        """Of each life. One that is not the state's ended with what is known of it."""
        own = {job.name: self._life_of(job) for job in state.jobs.values()}
        for job in state.jobs.values():
            yield job.name, known_pieces(own[job.name], job, state.incidents, now=now)
        for name, lives in self._lives.items():
            for life in lives:
                if life is not own.get(name):
                    yield name, pieces_of(life, now=life.marks[-1].at_s)

    def _life_of(self, job: Job) -> Life | None:
        """The newest of its name that is not an earlier job's."""
        own = self._lives.get(job.name, [])
        return own[-1] if own and own[-1].number >= job.number else None

    def _read(self, journal: Journal, state: State, now: float) -> None:
        """Up to the state's own entry: what is later the state does not know yet."""
        while self._after < state.sequence:
            page = journal.entries(after=self._after, turning=True, limit=PAGE_ENTRIES)
            for entry in page:
                if entry.sequence > state.sequence:
                    break
                take(self._lives, entry)
                self._count(entry)
                self._after = entry.sequence
            if len(page) < PAGE_ENTRIES or page[-1].sequence > state.sequence:
                self._after = max(self._after, state.sequence)
        self._forget(state.jobs, now)

    def _count(self, entry: Entry) -> None:
        again = (
            doing for doing in entry.doing.values() if doing.what is What.FORK and doing.attempt > 1
        )
        self.restarts.update(doing.kind or NO_FAULT for doing in again)

    def _forget(self, jobs: Mapping[str, Job], now: float) -> None:
        """Lives that ended long ago, but for the newest of a name that the state has."""
        for name, lives in list(self._lives.items()):
            kept = [life for life in lives if now - life.marks[-1].at_s < KEPT_S]
            kept = kept or (lives[-1:] if name in jobs else [])
            if kept:
                self._lives[name] = kept
            else:
                del self._lives[name]
