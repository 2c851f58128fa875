"""From the document of a job as it is to be to the event that has it so. Pure.

Called by the edges that people use: REST and the operator.
"""

import json
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from holdfast.driver.core.events import Plan, UpdateRequested
from holdfast.driver.core.state.model import Job
from holdfast.protocol import jobupdate
from holdfast.protocol.jobcheck import check_without_pods
from holdfast.protocol.mistakes import BadDocument, Mistake


def update_of(job: Job, plan: Plan, *, by: str) -> UpdateRequested:
    """The job is to be as `plan`, which was made of its new document.

    Raises `BadDocument` where it differs in what has to stay, or in nothing.
    """
    before, after = spec_of(job.plan), spec_of(plan)
    if wrong := jobupdate.mistakes(before, after):
        raise BadDocument(wrong)
    fields = jobupdate.changed(before, after)
    if not fields:
        raise BadDocument([_nothing(job.name)])
    return UpdateRequested(job=job.name, plan=of_this_life(job.plan, plan), fields=fields, by=by)


def of_this_life(before: Plan, plan: Plan) -> Plan:
    """Its checkpoints stay where they are, whatever the new plan would have had."""
    old = before.task
    task = replace(plan.task, store_url=old.store_url, begin_from=old.begin_from)
    task = replace(task, log_root=old.log_root)
    return replace(plan, task=task, suspend=before.suspend)


def spec_of(plan: Plan) -> dict[str, Any]:
    """The spec that a plan was made of, with the defaults of today, whichever driver made it; as it
    was written then, where today's rules refuse it."""
    document = json.loads(plan.spec or b"{}")
    with suppress(BadDocument):
        document = check_without_pods(document).model_dump(mode="json", by_alias=True)
    spec: dict[str, Any] = document.get("spec", {})
    return spec


def _nothing(name: str) -> Mistake:
    return Mistake(
        field="spec",
        value="",
        why="it is as the job's newest version already.",
        fix=f"To have its ranks start their script anew: holdfast suspend {name}, and resume it.",
    )
