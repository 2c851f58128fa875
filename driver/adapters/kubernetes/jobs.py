"""What a TrainingJob object wants of the core: its plan, and the request that is missing. Pure.

Used by `operator`. The object says what is wanted, the core's state what is: a request follows from
the two alone, so one that was lost is simply made again.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.driver.adapters.kubernetes import names, podspec, status
from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Job, Wanted
from holdfast.driver.core.state.versions import made_last
from holdfast.driver.people.spec_to_plan import plan_of
from holdfast.driver.people.update import of_this_life
from holdfast.protocol import jobupdate
from holdfast.protocol.jobcheck import check
from holdfast.protocol.jobspec import TrainingJob
from holdfast.protocol.mistakes import BadDocument
from holdfast.protocol.paths import RunPaths

Json = Mapping[str, Any]

BY = "its TrainingJob"
NO_POD = "spec.pod: it is missing. Give at least its image: a pod is made for each node of the job."
NO_STORE = "spec.checkpoint.storeUrl is empty: nothing is written to a store"


class Refused(Exception):
    """No job can be made of the object; the message says why, for its status."""


def missing(wanted: Json | None, job: Job | None, name: str) -> e.AnyEvent | None:
    """The request that brings core job `name` nearer to its object; None where none is missing.

    `wanted` is None where there is no such object. Raises `Refused`.
    """
    if job is None:
        return _submission(wanted, name) if wanted is not None else None
    if wanted is None or going(wanted) or uid_of(job) != wanted["metadata"]["uid"]:
        gone = job.wanted is Wanted.DELETE and not job.finished
        return None if gone else e.DeleteRequested(job=job.name, by=BY)
    if job.finished or job.ends is not None:
        return None
    suspend = bool(wanted["spec"].get("suspend", False))
    if suspend and job.wanted is Wanted.RUN:
        return e.SuspendRequested(job=job.name, by=BY)
    if not suspend and job.wanted is Wanted.SUSPEND:
        return e.ResumeRequested(job=job.name, by=BY)
    return None if job.parked else _update(wanted, job)


def going(wanted: Json) -> bool:
    return "deletionTimestamp" in wanted["metadata"]


def spent(wanted: Json) -> bool:
    """Whether the object's job was over before, so that there is nothing to start."""
    return status.ended(wanted.get("status", {}))


def left_s(wanted: Json, now: datetime) -> float | None:
    """How long the object of a job that is over has yet to live; None where that has no end."""
    ttl_s, at = wanted["spec"].get("ttlS"), status.ended_at(wanted.get("status", {}))
    if ttl_s is None or at is None or going(wanted):
        return None
    return float(ttl_s) - (now - at).total_seconds()


def uid_of(job: Job) -> str:
    """UID of the object that the job was made of; "" for one that came by REST."""
    return str(_document(job.plan).get("metadata", {}).get("uid", ""))


def changed(wanted: Json, job: Job) -> str:
    """Which fields of the spec are not those of the job, and have to stay; "" where none is. What
    may change is followed, see `missing`.
    """
    others = [f"spec.{field}" for field in jobupdate.refused(*_compared(wanted, job))]
    if not others:
        return ""
    return (
        f"{', '.join(others)}: changed after the job was accepted, and not followed. "
        "Change it back, or create the job under another name."
    )


def _update(wanted: Json, job: Job) -> e.UpdateRequested | None:
    """What may change has; with anything that may not, nothing is followed: `changed` says so."""
    try:
        before, after = _compared(wanted, job)
    except (Refused, BadDocument):
        return None  # told by the status
    fields = jobupdate.changed(before, after)
    if not fields or jobupdate.refused(before, after):
        return None
    plan = of_this_life(job.plan, _plan(wanted))
    return e.UpdateRequested(job=job.name, plan=plan, fields=fields, by=BY)


def _compared(wanted: Json, job: Job) -> tuple[dict[str, Any], dict[str, Any]]:
    """The spec that was followed last and that of today, both with the defaults of today; without
    `suspend`, which is a wish of its own. Raises `Refused`, `BadDocument`.
    """
    was, now = _accepted(made_last(job.versions).plan), _spec(wanted)
    return {**was, "suspend": None}, {**now, "suspend": None}


def _submission(wanted: Json, name: str) -> e.AnyEvent | None:
    if going(wanted) or spent(wanted):
        return None
    return e.JobSubmitted(job=name, plan=_plan(wanted), by=_author(wanted))


def _plan(wanted: Json) -> e.Plan:
    metadata = wanted["metadata"]
    job = _checked(wanted)
    paths = RunPaths(Path(podspec.SCRATCH))
    kept = {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]}
    document = job.model_dump(mode="json", by_alias=True)
    document["metadata"] |= kept
    plan = plan_of(_stored(job), paths, life=metadata["uid"])
    # Its time to live is that of the object, whose end ends the job here.
    return replace(plan, spec=json.dumps(document).encode(), ttl_s=None)


def _checked(wanted: Json) -> TrainingJob:
    metadata = wanted["metadata"]
    if "pod" not in wanted["spec"]:
        raise Refused(NO_POD)
    labels = {key: value for key, value in metadata.get("labels", {}).items() if "/" not in key}
    document = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": metadata["name"], "labels": labels},
        "spec": wanted["spec"],
    }
    return check(document)


def _stored(job: TrainingJob) -> TrainingJob:
    """Without a store of their own, pods have no folder in common to write checkpoints to."""
    if job.spec.checkpoint.store_url:
        return job
    checkpoint = job.spec.checkpoint.model_copy(update={"store_interval_steps": 0})
    spec = job.spec.model_copy(update={"checkpoint": checkpoint})
    return job.model_copy(update={"spec": spec})


def _accepted(plan: e.Plan) -> dict[str, Any]:
    """The spec that a plan was made of; as it was written then, where today's rules refuse it."""
    document = _document(plan)
    try:
        return _spec(document)
    except (Refused, BadDocument):
        spec: dict[str, Any] = document.get("spec", {})
        return spec


def _spec(wanted: Json) -> dict[str, Any]:
    spec: dict[str, Any] = _checked(wanted).model_dump(mode="json", by_alias=True)["spec"]
    return spec


def _author(wanted: Json) -> str:
    return f"TrainingJob {wanted['metadata']['namespace']}/{wanted['metadata']['name']}"


def _document(plan: e.Plan) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(plan.spec or b"{}")
    return document
