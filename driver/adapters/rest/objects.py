"""Requests about jobs that are objects elsewhere: done there, with the token of whoever asks.

Used by `jobs`. What becomes of it is decided once the driver sees the object; nobody waits for it,
and what is said is only what was asked.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from holdfast.driver.adapters.rest.asking import Done, refused
from holdfast.driver.adapters.rest.problems import Problem
from holdfast.driver.core.events import ResumeRequested, SuspendRequested
from holdfast.driver.people.access import Objects
from holdfast.driver.people.admission import refuse
from holdfast.driver.people.control import Control
from holdfast.protocol import jobcheck


async def submit(
    control: Control, objects: Objects, token: str, document: Any, key: str | None
) -> Done:
    if key is not None:
        raise Problem(
            422,
            "an Idempotency-Key is not kept for objects.",
            fix="Leave it out: a name is made only once.",
        )
    if not (isinstance(document, Mapping) and isinstance(document.get("metadata"), Mapping)):
        await asyncio.to_thread(jobcheck.check, document)  # refuses it, and says what a job is
    sequence = control.sequence
    name = await objects.submit(token, document)
    why = f"{name} is submitted; TrainingJob {name} is there"
    return Done(name=name, sequence=sequence, why=why)


async def suspend(
    control: Control, objects: Objects, token: str, job: str, *, suspend: bool
) -> Done:
    _check_not_over(control, job)
    sequence = control.sequence
    await objects.suspend(token, job, suspend=suspend)
    what = "is being suspended" if suspend else "goes on once it has nodes"
    seen = f"`holdfast status {job} --watch` shows it"
    return Done(name=job, sequence=sequence, why=f"{job} {what}: {seen}")


async def delete(control: Control, objects: Objects, token: str, job: str) -> Done:
    sequence = control.sequence
    await objects.delete(token, job)
    return Done(name=job, sequence=sequence, why=f"{job} is being deleted")


def not_here(job: str) -> Problem:
    """Another version is a change of the object, by the tools that show what it changes."""
    return Problem(
        409,
        f"job: {job!r} is an object of Kubernetes, which says what it is to be.",
        fix="Change the object: kubectl edit trainingjob, or kubectl apply.",
    )


def check(control: Control, event: ResumeRequested) -> None:
    """Raises `Problem` where the job cannot begin at the step that is asked for: before its object
    has it go on from another one.
    """
    refusal = refuse(control.state, event)
    if event.job in control.state.jobs and event.from_step is not None and refusal is not None:
        raise refused(event.job, refusal)


def _check_not_over(control: Control, name: str) -> None:
    """Raises `Problem`: an object takes the wish, and nothing would come of it."""
    job = control.state.jobs.get(name)
    refusal = refuse(control.state, SuspendRequested(job=name))
    if job is not None and job.finished and refusal is not None:
        raise refused(name, refusal)
