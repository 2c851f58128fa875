"""Requests about jobs that are objects elsewhere: done there, with the token of whoever asks.

Used by `jobs`. What becomes of it is decided once the driver sees the object; nobody waits for it.
"""

from collections.abc import Mapping
from typing import Any

from holdfast.driver.adapters.rest.asking import Done
from holdfast.driver.adapters.rest.problems import Problem
from holdfast.driver.control import Control
from holdfast.driver.people import Objects
from holdfast.protocol.jobcheck import check

FOLLOWED = "the driver follows the object"


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
        check(document)  # refuses it, and says what a job is
    sequence = control.sequence
    name = await objects.submit(token, document)
    return _done(name, sequence, f"{name} is created")


async def suspend(
    control: Control, objects: Objects, token: str, job: str, *, suspend: bool
) -> Done:
    sequence = control.sequence
    await objects.suspend(token, job, suspend=suspend)
    return _done(job, sequence, f"{job} is to {'be suspended' if suspend else 'go on'}")


async def delete(control: Control, objects: Objects, token: str, job: str) -> Done:
    sequence = control.sequence
    await objects.delete(token, job)
    return _done(job, sequence, f"{job} is deleted")


def _done(name: str, sequence: int, what: str) -> Done:
    """`sequence`: the newest entry when it was asked; what becomes of it comes after."""
    return Done(name=name, sequence=sequence, why=f"{what}; {FOLLOWED}")
