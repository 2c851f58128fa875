"""Routes that explain: the story of a job, and why a job or a node is as it is; attempts."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from holdfast.driver.adapters.rest.guard import Driver, person
from holdfast.driver.adapters.rest.jobs import job_of
from holdfast.driver.adapters.rest.nodes import node_of
from holdfast.driver.adapters.rest.telling import Story, Why, story_of, why_job, why_node
from holdfast.driver.control import Control
from holdfast.driver.ports import Entry

router = APIRouter(tags=["stories"], dependencies=[Depends(person)])

PAGE_ENTRIES = 1_000


@router.get("/jobs/{job}/story")
async def story(
    job: str,
    control: Driver,
    after: Annotated[int, Query(ge=0, description="Begin after this sequence.")] = 0,
) -> Story:
    """All that was decided about the job, each with its reason."""
    job_of(control, job)
    return story_of(job, entries_of(control, job=job, after=after))


@router.get("/jobs/{job}/why")
async def why_of_job(job: str, control: Driver) -> Why:
    """Why the job is as it is, in sentences, from its last incident on."""
    return why_job(control.state, job_of(control, job), entries_of(control, job=job))


@router.get("/nodes/{node}/why")
async def why_of_node(node: str, control: Driver) -> Why:
    """Why the node is as it is, in sentences."""
    return why_node(control.state, node_of(control, node), entries_of(control, node=node))


def entries_of(
    control: Control, *, job: str | None = None, node: str | None = None, after: int = 0
) -> list[Entry]:
    """Every entry that belongs to it, read page by page."""
    entries: list[Entry] = []
    while page := control.journal.entries(job=job, node=node, after=after, limit=PAGE_ENTRIES):
        entries += page
        after = page[-1].sequence
    return entries
