"""Notes each job's curves, and keeps them in a file beside its logs.

Run beside the loop, by `driver.wiring`; asked by the REST interface. Reads what the detectors were
told anyway. A driver that is killed loses the last `WRITE_S`; the next one goes on from the file.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Lock

import msgspec

from holdfast.driver.core.state.model import Job, State
from holdfast.driver.watch import Watch
from holdfast.driver.watch.curve import EVERY_S, Curve, Stored, of
from holdfast.kit.files import write_atomic
from holdfast.kit.logs import LazyLogger
from holdfast.protocol.paths import RunPaths

WRITE_S = 5.0
"""A file of at most 40 KB a job that runs: no load for a disk."""

_log = LazyLogger()


class Curves:
    """Of all jobs of one driver. On its event loop, but for `told`, which may be asked anywhere."""

    def __init__(
        self,
        watch: Watch,
        paths: RunPaths,
        *,
        state: Callable[[], State],
        now: Callable[[], float],
    ) -> None:
        self._watch = watch
        self._paths = paths
        self._state = state
        self._now = now
        self._curves: dict[str, Curve] = {}
        self._changed: set[str] = set()
        self._noting = Lock()  # who asks in a thread sees no moment of which a part is noted
        self.trouble = ""  # why what is noted is in no file

    async def run(self, around: Callable[[str], AbstractContextManager[None]]) -> None:
        """For ever. `around`: what is done for one job."""
        looks = 0
        while True:
            await self.look(around)
            looks += 1
            if looks * EVERY_S % WRITE_S < EVERY_S:
                await asyncio.to_thread(self.write)
                self._let_go()
            await asyncio.sleep(EVERY_S)

    async def look(self, around: Callable[[str], AbstractContextManager[None]]) -> None:
        """Once at each job that has ranks."""
        for job in [job for job in self._state().jobs.values() if job.seats]:
            with around(job.name):
                await self._look(job)

    def told(self, job: Job) -> Stored | None:
        """The curves of a job; None where there are none."""
        curve = self._curves.get(job.name)
        if curve is not None and curve.job_s == job.submitted_s:
            with self._noting:
                return curve.stored()
        return stored(self._paths.curves(job.name), job.submitted_s)

    def write(self) -> None:
        """What has changed, in the folder of each job. Raises nothing: training goes on."""
        changed, self._changed = self._changed, set()
        for name in changed & self._curves.keys():
            path = self._paths.curves(name)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(path, msgspec.json.encode(self._curves[name].stored()))
            except OSError as error:
                self._in_trouble(f"{path}: {error.strerror}")
                self._changed.add(name)
            else:
                self.trouble = ""

    async def _look(self, job: Job) -> None:
        moment = self._watch.sampled(job.name)
        if moment is None:
            return
        curve = self._curves.get(job.name)
        if curve is None or curve.job_s != job.submitted_s:
            path = self._paths.curves(job.name)
            before = await asyncio.to_thread(stored, path, job.submitted_s)
            curve = of(before) if before else Curve(job.submitted_s)
            self._curves[job.name] = curve
        with self._noting:
            curve.note(self._now() - job.submitted_s, moment)
        self._changed.add(job.name)

    def _let_go(self) -> None:
        """Of jobs that are over the file is enough, once it is written."""
        jobs = self._state().jobs
        for name in self._curves.keys() - self._changed:
            if name not in jobs or jobs[name].finished:
                del self._curves[name]

    def _in_trouble(self, why: str) -> None:
        if why != self.trouble:
            _log.warning("curves are not written", why=why)
        self.trouble = why


def stored(path: Path, job_s: float | None = None) -> Stored | None:
    """What is in the file; None where there is none, or none of the job of then."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Stored)
        of(found)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, ValueError) as error:
        _log.warning("curves cannot be read", path=str(path), why=str(error))
        return None
    return found if job_s is None or abs(found.job_s - job_s) < 1e-6 else None
