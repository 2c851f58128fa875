"""Routes that explain: the story of a job, and why a job or a node is as it is.

They read the journal, so each runs in a thread of its own.
"""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from holdfast.driver.adapters.rest import telling
from holdfast.driver.adapters.rest.guard import NO_PARAMETERS, PREFIX, Driver, person
from holdfast.driver.adapters.rest.jobs import job_of, told
from holdfast.driver.adapters.rest.nodes import node_of
from holdfast.driver.adapters.rest.parameters import AfterSequence, Parameters

router = APIRouter(prefix=PREFIX, tags=["stories"], dependencies=[Depends(person)])


class StoryParameters(Parameters):
    """Of a story."""

    after: AfterSequence = Field(default=0, description="Begin after this sequence.")
    whole: bool = Field(default=False, alias="all", description="Also what changed nothing.")
    earlier: bool = Field(default=False, description="Also of the jobs that had its name before.")


@router.get("/jobs/{job}/story")
def story(job: str, control: Driver, asked: Annotated[StoryParameters, Query()]) -> telling.Story:
    """All that was decided about the job, each with its reason."""
    return telling.story_of(
        control.journal,
        control.state,
        job_of(control, job),
        after=asked.after,
        whole=asked.whole,
        earlier=asked.earlier,
    )


@router.get("/jobs/{job}/why", dependencies=[NO_PARAMETERS])
def why_of_job(job: str, control: Driver) -> telling.Why:
    """Why the job is as it is, in sentences, from its last incident on."""
    known = told(control, job_of(control, job))
    return telling.why_job(control.journal, control.state, known, now=control.now())


@router.get("/nodes/{node}/why", dependencies=[NO_PARAMETERS])
def why_of_node(node: str, control: Driver) -> telling.Why:
    """Why the node is as it is, in sentences."""
    absent = control.absent().get(node, "")
    known = node_of(control, node)
    return telling.why_node(control.journal, control.state, known, now=control.now(), absent=absent)
