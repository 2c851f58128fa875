"""Routes that explain: the story of a job, and why a job or a node is as it is.

They read the journal, so each runs in a thread of its own.
"""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from holdfast.driver.adapters.rest import telling
from holdfast.driver.adapters.rest.guard import Driver, person
from holdfast.driver.adapters.rest.jobs import job_of
from holdfast.driver.adapters.rest.nodes import node_of

router = APIRouter(tags=["stories"], dependencies=[Depends(person)])


@router.get("/jobs/{job}/story")
def story(
    job: str,
    control: Driver,
    after: Annotated[int, Query(ge=0, description="Begin after this sequence.")] = 0,
    whole: Annotated[
        bool,
        Query(alias="all", description="Also what changed nothing."),
    ] = False,
) -> telling.Story:
    """All that was decided about the job, each with its reason."""
    job_of(control, job)
    return telling.story_of(control.journal, control.state, job, after=after, whole=whole)


@router.get("/jobs/{job}/why")
def why_of_job(job: str, control: Driver) -> telling.Why:
    """Why the job is as it is, in sentences, from its last incident on."""
    return telling.why_job(control.journal, control.state, job_of(control, job))


@router.get("/nodes/{node}/why")
def why_of_node(node: str, control: Driver) -> telling.Why:
    """Why the node is as it is, in sentences."""
    return telling.why_node(control.journal, control.state, node_of(control, node))
