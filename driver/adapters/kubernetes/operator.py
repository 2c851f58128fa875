"""Follows TrainingJobs: what they want becomes requests to the core, what becomes of them a status.

Made by the wiring, beside the loop. Must not decide: a request follows from object and state
(`jobs.missing`), the status is a projection (`status`). One job is worked on at a time, any number
of jobs at once.
"""

import asyncio
from typing import Any

from holdfast.driver.adapters.kubernetes import jobs, pods, status
from holdfast.driver.adapters.kubernetes.events import Braked, Met, Rejected, Teller, Turned
from holdfast.driver.adapters.kubernetes.objects import TrainingJobs
from holdfast.driver.adapters.kubernetes.podbook import PodBook
from holdfast.driver.batch.inbox import NotAccepting, Refused
from holdfast.driver.cluster.cause import acting_for
from holdfast.driver.core.state.model import Job, State
from holdfast.driver.follow.guard import Guard
from holdfast.driver.loop import Loop
from holdfast.driver.people.admission import DEFECT
from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.driver.watch import Watch
from holdfast.kit.clock import Clock
from holdfast.kit.logs import LazyLogger
from holdfast.kubeapi import paths
from holdfast.kubeapi.bucket import TokenBucket
from holdfast.kubeapi.client import Client
from holdfast.kubeapi.errors import Conflict, NotFound
from holdfast.kubeapi.queue import KeyedQueue
from holdfast.protocol.mistakes import BadDocument

Object = dict[str, Any]

PROGRESS_EVERY_S = 10.0
"""Between two writes of a status in which only the progress is new."""
PODS_EVERY_S = 1.0
"""Between looks at a job for what its pods do: those of a large one change together."""
CHANGES_EVERY_S = 0.2
"""Between looks at a job that changes within its phase: each of thousands of nodes is a change."""
AT_ONCE = 8
"""Jobs that are worked on at a time: each of them waits for the API server most of the time."""

JOBS_PER_S, JOBS_BURST = 100.0, 1_000
"""How often any job is looked at: each look may be a write, and an API server has others to serve.
All jobs of a large cluster are looked at once when a driver begins."""

_log = LazyLogger()


class Operator:
    """One driver's TrainingJobs."""

    def __init__(
        self,
        client: Client,
        objects: TrainingJobs,
        *,
        loop: Loop,
        watch: Watch,
        book: PodBook,
        clock: Clock,
    ) -> None:
        self._client = client
        self._objects = objects
        self._loop = loop
        self._watch = watch
        self._book = book
        self._guard = Guard(loop.post, costs="the status of its TrainingJob may be an old one")
        self._clock = clock
        self.queue = KeyedQueue(bucket=TokenBucket(per_s=JOBS_PER_S, burst=JOBS_BURST))
        self._teller = Teller(client)
        book.when_news(self._look_again)
        self._state = loop.state
        self._written: dict[str, tuple[str, float]] = {}  # UID of the object, and when

    def follow(self, state: State) -> None:
        """Look again at each job that this commit changed, and tell of those that turned."""
        before, self._state = self._state, state
        self._guard.keep(state.jobs.keys())
        for name in before.jobs.keys() | state.jobs.keys():
            was, job = before.jobs.get(name), state.jobs.get(name)
            if was is not job:
                with self._guard.around(name):
                    self._changed_to(job, was, name)
        for name in status.given_anew(before, state):
            self.queue.add(name, after_s=CHANGES_EVERY_S)
        if before.brake.on is not state.brake.on:
            self._tell_brake(state)

    def _changed_to(self, job: Job | None, was: Job | None, name: str) -> None:
        turned = was is None or job is None or was.phase is not job.phase
        self.queue.add(name, after_s=0.0 if turned else CHANGES_EVERY_S)
        met = was is not None and job is not None and was.incident != job.incident
        if job is not None and (turned or met):
            self._tell(job, self._state, was, turned=turned)

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_objects())
            group.create_task(self._teller.run())
            await self._objects.seen()
            group.create_task(self.queue.work(self._bring_about, at_once=AT_ONCE))

    async def _follow_objects(self) -> None:
        async for name in self._objects.changes():
            for each in [name] if name else [*self._objects.names(), *self._state.jobs]:
                self.queue.add(each)

    def _look_again(self, pod: Object) -> None:
        if job := self._objects.job_of(pod):
            self.queue.add(job, after_s=PODS_EVERY_S)

    def _tell(self, job: Job, state: State, was: Job | None, *, turned: bool) -> None:
        """Events for its object: an incident that it met, and a phase that it came to. Where the
        object was made anew meanwhile, they are not about it.
        """
        wanted = self._objects.owner(job.name)
        if wanted is None or wanted["metadata"]["uid"] != jobs.uid_of(job):
            return
        number = job.incident if was is not None and was.incident != job.incident else None
        met = state.incidents[number] if number is not None else None
        when = state.term, state.sequence, self._clock.wall()
        if met is not None:
            self._teller.tell(Met(wanted, met, *when))
        if turned:
            self._teller.tell(Turned(wanted, job, met.summary if met else "", *when))

    def _tell_brake(self, state: State) -> None:
        """An Event for the object of each job that goes on with or without evictions."""
        for name, job in state.jobs.items():
            with self._guard.around(name):
                wanted = None if job.finished else self._objects.owner(name)
                if wanted is not None:
                    at = self._clock.wall()
                    self._teller.tell(Braked(wanted, state.brake, state.term, state.sequence, at))

    async def _bring_about(self, name: str) -> None:
        """See `_follow_through`; what is written follows from the newest entry."""
        state = self._loop.state
        doing = acting_for(term=state.term, entry=state.sequence, doing=f"Status {name}")
        with doing, self._guard.around(name):
            await self._follow_through(name)

    async def _follow_through(self, name: str) -> None:
        """Bring one job nearer to its object, and its object's status to the job.

        Raises what the core answers that cannot take the request, once the status says so.
        """
        wanted, job = self._objects.owner(name), self._loop.state.jobs.get(name)
        if wanted is not None and self._has_lived(name, wanted, job):
            await self._delete(wanted)
            return
        why, hindered = "", None
        try:
            await self._ask(name, wanted, job)
        except jobs.Refused as refused:
            why = str(refused)
        except BadDocument as bad:
            why = "\n".join(bad.sentences)
        except (TemporaryError, PermanentError) as error:
            hindered = error
        if wanted is not None and not jobs.going(wanted):
            await self._say(name, wanted, why, str(hindered or ""))
        if hindered is not None:
            raise hindered

    def _has_lived(self, name: str, wanted: Object, job: Job | None) -> bool:
        """Whether the time to live of the object is over, which begins once its status says that
        its job has ended: were a job forgotten before that, it would be taken for a new one.
        """
        left_s = jobs.left_s(wanted, self._clock.wall())
        if left_s is None or not (job is None or job.finished):
            return False
        if left_s > 0.0:
            self.queue.add(name, after_s=left_s)
        return left_s <= 0.0

    async def _ask(self, name: str, wanted: Object | None, job: Job | None) -> None:
        if job is None and wanted is None:
            self._written.pop(name, None)
            self.queue.forget(name)
        event = jobs.missing(wanted, job, name)
        if event is None:
            return
        try:
            await self._loop.request(event)
        except NotAccepting as error:
            raise TemporaryError(str(error)) from error
        except Refused as error:
            if error.refusal.code == DEFECT and job is None:
                raise jobs.Refused(str(error)) from error
            raise PermanentError(str(error)) from error

    async def _delete(self, wanted: Object) -> None:
        metadata = wanted["metadata"]
        at = paths.training_jobs(metadata["namespace"], metadata["name"])
        try:
            await self._client.delete(at, uid=metadata["uid"])
        except (NotFound, Conflict):
            _log.info("gone already", object=at)

    async def _say(self, name: str, wanted: Object, why: str, hindered: str) -> None:
        """Write the status, at once where a person would want to know, else now and then.

        `why`: no job can be made of it; `hindered`: what it wants cannot be done now.
        """
        job = self._loop.state.jobs.get(name)
        if job is not None and jobs.uid_of(job) != wanted["metadata"]["uid"]:
            return  # that of an object before it, on its way out
        if why:
            new = self._refusal(wanted, why, status.REFUSED)
        elif job is not None:
            new = self._status(job, wanted, hindered)
        elif hindered:
            new = self._refusal(wanted, hindered, status.WAITING)
        else:
            return
        if why and wanted.get("status", {}).get("message") != new["message"]:
            state = self._loop.state
            at = self._clock.wall()
            self._teller.tell(Rejected(wanted, why, state.term, state.sequence, at))
        await self._write(name, wanted, new)
        if job is not None and not job.finished:
            self.queue.add(name, after_s=PROGRESS_EVERY_S)

    async def _write(self, name: str, wanted: Object, new: status.Status) -> None:
        old = {key: value for key, value in wanted.get("status", {}).items() if value is not None}
        given = {key: value for key, value in new.items() if value is not None}
        if given == old:
            return
        uid, now_s = wanted["metadata"]["uid"], self._clock.monotonic_s()
        last_uid, last_s = self._written.get(name, ("", 0.0))
        only_progress = status.urgent(given) == status.urgent(old)
        if only_progress and last_uid == uid and now_s - last_s < PROGRESS_EVERY_S:
            return
        metadata = wanted["metadata"]
        at = paths.training_jobs(metadata["namespace"], metadata["name"], "status")
        cleared = dict.fromkeys(old.keys() - new.keys())
        try:
            body = {"metadata": {"uid": uid}, "status": {**cleared, **new}}
            await self._client.patch(at, body)
        except (NotFound, Conflict):
            return  # another object has the name: its own change brings us back
        self._written[name] = uid, now_s

    def _refusal(self, wanted: Object, why: str, verdict: status.Verdict) -> status.Status:
        return status.refused(
            why,
            wanted.get("status", {}),
            verdict=verdict,
            generation=wanted["metadata"]["generation"],
            at=self._at(),
        )

    def _status(self, job: Job, wanted: Object, hindered: str) -> status.Status:
        mine = self._book.of(wanted["metadata"]["uid"])
        return status.status_of(
            job,
            self._loop.state,
            live=self._watch.figures(job.name),
            pods_ready=sum(pods.ready(pod) for pod in mine),
            hindrance=self._book.hindrance(wanted["metadata"]["uid"]),
            changed=self._changed(wanted, job),
            hindered=hindered,
            before=wanted.get("status", {}),
            generation=wanted["metadata"]["generation"],
            at=self._at(),
        )

    def _changed(self, wanted: Object, job: Job) -> str:
        try:
            return jobs.changed(wanted, job)
        except (jobs.Refused, BadDocument) as bad:
            return f"{bad} The job goes on as it was accepted."

    def _at(self) -> str:
        return self._clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
