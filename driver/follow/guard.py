"""A defect of ours that is met in one job's affairs is told of, and costs the others nothing.

Used by what follows committed states: what raises there would end the driver, and the next one at
its start, for the state is the same. Must not be used where something is decided: see
`journal.draft`.
"""

import traceback
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager

from holdfast.driver.core.events import AnyEvent, Found
from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.kit.logs import LazyLogger
from holdfast.protocol.faults import Evidence, Finding, Kind, Weight

_log = LazyLogger()


class Guard:
    """Tells of a defect once a job and line of code. `costs`: what a job lacks that met one."""

    def __init__(self, emit: Callable[[AnyEvent], None], *, costs: str) -> None:
        self._emit = emit
        self._costs = costs
        self._told: dict[str, set[str]] = {}

    @contextmanager
    def around(self, job: str) -> Iterator[None]:
        """Around what is done for the job. What the outside answers is no defect, and passes."""
        try:
            yield
        except (TemporaryError, PermanentError):
            raise
        except Exception as error:  # noqa: BLE001 met in one job it must not end the care of all
            self._tell(job, error)

    def keep(self, jobs: Set[str]) -> None:
        """There are these; what was told of others is forgotten."""
        for job in self._told.keys() - jobs:
            del self._told[job]

    def _tell(self, job: str, error: Exception) -> None:
        last = traceback.extract_tb(error.__traceback__)[-1]
        told, at = self._told.setdefault(job, set()), f"{last.filename}:{last.lineno}"
        if at not in told:
            told.add(at)
            _log.error("defect after a commit", job=job, exc_info=error)
            self._emit(Found(finding=self._finding(job, f"defect: {error!r}", at)))

    def _finding(self, job: str, what: str, at: str) -> Finding:
        return Finding(
            kind=Kind.DEFECT,
            weight=Weight.REPORT,
            job=job,
            summary=f"{what}: {job} goes on, but {self._costs}. Report it with the driver's log",
            evidence=(Evidence(source="driver", text=f"{what}, at {at}"),),
        )
