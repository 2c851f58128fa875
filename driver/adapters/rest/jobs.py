"""Routes about jobs: submit, list, get, update, suspend, resume, stop, delete, live progress."""

import asyncio
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from msgspec.structs import replace
from pydantic import Field

from holdfast.driver.adapters.rest import objects
from holdfast.driver.adapters.rest.asking import Done, IdempotencyKey, ask, key_of
from holdfast.driver.adapters.rest.body import read_json
from holdfast.driver.adapters.rest.guard import NO_PARAMETERS, PREFIX, Caller, Driver, person
from holdfast.driver.adapters.rest.nodes import PERSON, none_there
from holdfast.driver.adapters.rest.paging import DEFAULT_LIMIT, MAX_LIMIT, page
from holdfast.driver.adapters.rest.parameters import JobFilter, ResumeParameters, StopParameters
from holdfast.driver.adapters.rest.problems import not_found
from holdfast.driver.adapters.rest.views import JobList, JobView, job_view
from holdfast.driver.core import events
from holdfast.driver.core.state.model import Job, Wanted
from holdfast.driver.people.control import Control
from holdfast.driver.people.spec_to_plan import plan_of
from holdfast.driver.people.update import update_of
from holdfast.kit.ids import new_id
from holdfast.protocol.jobcheck import check_without_pods
from holdfast.protocol.mistakes import BadDocument, Mistake, shown

router = APIRouter(prefix=f"{PREFIX}/jobs", tags=["jobs"], dependencies=[Depends(person)])


@router.post("", status_code=201, dependencies=[NO_PARAMETERS])
async def submit(
    request: Request, response: Response, control: Driver, token: Caller, key: IdempotencyKey = None
) -> Done:
    """Submit a TrainingJob. All mistakes are told at once; then nothing was changed."""
    document = await read_json(request)
    if control.people.objects is not None:
        done = await objects.submit(control, control.people.objects, token, document, key)
    else:
        done = await _submit(control, document, key)
    response.headers["Location"] = f"/v1alpha1/jobs/{done.name}"
    return done


async def _submit(control: Control, document: Any, key: str | None) -> Done:
    job = await asyncio.to_thread(check_without_pods, document)  # of 1 MiB: seconds
    name = job.metadata.name
    plan = plan_of(job, control.settings.paths, life=new_id("life", length_bytes=8))
    event = events.JobSubmitted(job=name, plan=plan, by=PERSON)
    return await ask(control, name, event, key=key_of(key, "submit", document))


class JobsParameters(JobFilter):
    """Of the list of jobs."""

    limit: int = Field(
        default=DEFAULT_LIMIT, ge=1, le=MAX_LIMIT, description="Most jobs on a page."
    )
    token: str | None = Field(
        default=None, alias="continue", description="The `continue` of the page before."
    )


@router.get("")
async def list_jobs(control: Driver, asked: Annotated[JobsParameters, Query()]) -> JobList:
    """Jobs in the order in which they were submitted, page by page."""
    chosen = filter(asked.takes, control.state.jobs.values())
    shown, following = page(
        chosen, key=lambda job: job.number, limit=asked.limit, token=asked.token
    )
    return JobList(items=[view_of(control, job) for job in shown], next=following)


@router.get("/{job}", dependencies=[NO_PARAMETERS])
async def get_job(job: str, control: Driver) -> JobView:
    """One job as it is now."""
    return view_of(control, job_of(control, job))


@router.put("/{job}", status_code=202, dependencies=[NO_PARAMETERS])
async def update(job: str, request: Request, control: Driver, key: IdempotencyKey = None) -> Done:
    """Have the job run another version of itself: the whole TrainingJob, as it is to be. What runs
    saves and ends first. Where the new version fails again and again the one before runs again.
    """
    document = await read_json(request)
    known = job_of(control, job)
    if control.people.objects is not None:
        raise objects.not_here(job)
    wanted = await asyncio.to_thread(check_without_pods, document)
    if wanted.metadata.name != job:
        raise BadDocument([_named(wanted.metadata.name, job)])
    plan = plan_of(wanted, control.settings.paths, life="")
    made_of = key_of(key, "update", job, document)
    return await ask(control, job, update_of(known, plan, by=PERSON), key=made_of)


def _named(name: str, job: str) -> Mistake:
    return Mistake(
        field="metadata.name",
        value=shown(name),
        why=f"the job that is to be updated is {job}.",
        fix=f"Write {job}, or submit it as another job.",
    )


@router.get("/{job}/progress", dependencies=[NO_PARAMETERS])
async def progress(job: str, control: Driver) -> Any:
    """What the detectors see live: step, loss, tokens/s, and each rank. Null before the first."""
    job_of(control, job)
    return msgspec.to_builtins(control.watch.progress(job), str_keys=True)


@router.post("/{job}/suspend", status_code=202, dependencies=[NO_PARAMETERS])
async def suspend(job: str, control: Driver, token: Caller, key: IdempotencyKey = None) -> Done:
    """Hold the job: it gives its nodes back and keeps its place."""
    if control.people.objects is not None:
        return await objects.suspend(control, control.people.objects, token, job, suspend=True)
    return await _about(control, events.SuspendRequested(job=job, by=PERSON), key)


@router.post("/{job}/resume", status_code=202)
async def resume(
    job: str,
    control: Driver,
    token: Caller,
    asked: Annotated[ResumeParameters, Query()],
    key: IdempotencyKey = None,
) -> Done:
    """Let a suspended job go on, or say where one begins that waits to know what its store has."""
    event = events.ResumeRequested(job=job, from_step=asked.from_step, by=PERSON)
    known = control.state.jobs.get(job)
    suspended = known is None or known.wanted is Wanted.SUSPEND
    if control.people.objects is not None and (asked.from_step is None or suspended):
        objects.check(control, event)
        done = await objects.suspend(control, control.people.objects, token, job, suspend=False)
        if asked.from_step is None:
            return done
    return await _about(control, event, key, asked.from_step)


@router.post("/{job}/stop", status_code=202)
async def stop(
    job: str,
    control: Driver,
    asked: Annotated[StopParameters, Query()],
    key: IdempotencyKey = None,
) -> Done:
    """End the job: SIGTERM, its grace, SIGKILL. It stays in the list as Stopped."""
    event = events.StopRequested(job=job, by=PERSON, interrupt=asked.interrupt)
    return await _about(control, event, key)


@router.delete("/{job}", status_code=202, dependencies=[NO_PARAMETERS])
async def delete(job: str, control: Driver, token: Caller, key: IdempotencyKey = None) -> Done:
    """End the job if it runs, and forget it. Its logs stay."""
    if control.people.objects is not None:
        return await objects.delete(control, control.people.objects, token, job)
    return await _about(control, events.DeleteRequested(job=job, by=PERSON), key)


def told(control: Control, job: Job) -> Job:
    """With what keeps nodes from a job that waits, or executors from nodes that it has: the core
    does not know either.
    """
    if job.finished:
        return job
    nodes = (control.away() or none_there(control)) if job.waiting else ""
    said = filter(None, (job.waiting, nodes, control.hindrance(job.name)))
    return replace(job, waiting="; ".join(said))


def job_of(control: Control, name: str) -> Job:
    """The job, or 404 with those that there are."""
    job = control.state.jobs.get(name)
    if job is None:
        raise not_found("job", name, control.state.jobs)
    return job


_About = (
    events.SuspendRequested | events.ResumeRequested | events.StopRequested | events.DeleteRequested
)


async def _about(control: Control, event: _About, key: str | None, *more: object) -> Done:
    said = [each for each in more if each is not None]
    made_of = key_of(key, type(event).__name__, event.job, *said)
    return await ask(control, event.job, event, key=made_of)


def view_of(control: Control, job: Job) -> JobView:
    """The job with what detectors see live, and what keeps nodes from it."""
    watch = control.watch
    return job_view(
        control.state,
        told(control, job),
        now=control.now(),
        live=watch.figures(job.name),
        pids=watch.pids(job.name),
    )
