"""People as the API server knows them: their own tokens decide, by its RBAC.

Made by the wiring. A person's token is passed on and is nowhere kept: a review says what they may
see of the driver, and TrainingJobs are written with it, so the driver needs no right for either.
The driver's own token, which is in its state folder, opens all that is the driver's own.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from holdfast.driver.adapters.kubernetes import rights
from holdfast.driver.adapters.kubernetes.names import Jobs, Object
from holdfast.driver.adapters.tokens import Tokens
from holdfast.driver.people.access import (
    InTheWay,
    NotAllowed,
    NotThere,
    Right,
    Stranger,
    Wrong,
)
from holdfast.driver.ports import PermanentError
from holdfast.kubeapi import errors, paths
from holdfast.kubeapi.client import Client
from holdfast.protocol.jobcheck import check

HOW = "Set HOLDFAST_TOKEN to a token of the cluster, e.g. of: kubectl create token NAME"

JOBS = {"group": paths.GROUP, "resource": "trainingjobs"}
ASKED: dict[Right, dict[str, str]] = {
    Right.SUBMIT: {"verb": "create", **JOBS},
    Right.SEE_JOBS: {"verb": "list", **JOBS},
    Right.SEE_JOB: {"verb": "get", **JOBS},
    Right.READ_LOGS: {"verb": "get", "resource": "pods", "subresource": "log"},
    Right.CHANGE_JOB: {"verb": "patch", **JOBS},
    Right.DELETE_JOB: {"verb": "delete", **JOBS},
    Right.SEE_NODES: {"verb": "list", "resource": "nodes"},
    Right.CHANGE_NODES: {"verb": "patch", "resource": "nodes"},
}
"""The right of the API server that each of ours is. `SUBMIT` is judged by the write itself."""

ROLES: dict[Right, str] = {
    **dict.fromkeys((Right.SEE_JOBS, Right.SEE_JOB), "holdfast-view"),
    **dict.fromkeys((Right.SUBMIT, Right.CHANGE_JOB, Right.DELETE_JOB), "holdfast-edit"),
    Right.READ_LOGS: "view",
}
"""The ClusterRole, of deploy/kubernetes or Kubernetes' own, that gives it. None gives nodes."""

OF_NODES = frozenset({Right.SEE_NODES, Right.CHANGE_NODES})


class Needed(NamedTuple):
    """A right, and where: namespace and name, as far as they matter."""

    right: Right
    where: Mapping[str, str]

    @property
    def asked(self) -> rights.Asked:
        return ASKED[self.right] | dict(self.where)


class ClusterPeople:
    """Whoever the API server knows, and whoever has the driver's own token."""

    def __init__(self, client: Client, jobs: Jobs, tokens: Tokens) -> None:
        self._client = client
        self._jobs = jobs
        self._tokens = tokens
        self.objects = ClusterObjects(client, jobs, tokens)

    async def check(self, token: str, right: Right, job: str = "") -> None:
        if self._tokens.is_user(token) or right is Right.SUBMIT:
            return
        needed = Needed(right, {} if right in OF_NODES else self._which(right, job))
        async with as_person(self._client, token, needed) as person:
            if await rights.missing(person, [needed.asked]):
                raise await denied(person, needed)

    def _which(self, right: Right, job: str) -> dict[str, str]:
        """Namespace and name; of a pattern the namespace, if it names one."""
        if right is Right.SEE_JOBS:
            return {"namespace": self._jobs.namespace or _plain(job.rpartition(".")[0])}
        at = self._jobs.object(job)
        if not at.name:
            raise NotThere(
                f"there is no job {job!r}.", fix="Name its namespace, too: NAMESPACE.NAME."
            )
        return {"namespace": at.namespace, "name": "" if right is Right.READ_LOGS else at.name}


class ClusterObjects:
    """TrainingJobs, written with the token of whoever asks."""

    def __init__(self, client: Client, jobs: Jobs, tokens: Tokens) -> None:
        self._client = client
        self._jobs = jobs
        self._tokens = tokens

    async def submit(self, token: str, document: Mapping[str, Any]) -> str:
        """In the driver's namespace; where it has all of them: `metadata.namespace`, or default."""
        metadata = dict(document.get("metadata") or {})
        given = metadata.pop("namespace", self._jobs.namespace or "default")
        if self._jobs.namespace not in ("", given):
            raise Wrong(
                f"metadata.namespace: {given!r} is not this driver's.",
                fix=f"Its namespace is {self._jobs.namespace}; leave it out.",
            )
        named = check({**document, "metadata": metadata}).metadata.name
        body = {**document, "metadata": {**metadata, "namespace": given}}
        async with self._writing(token, Needed(Right.SUBMIT, {"namespace": given})) as person:
            at = paths.training_jobs(given)
            await person.create(at, body, fieldValidation="Strict")
        return self._jobs.job(Object(given, named))

    async def suspend(self, token: str, job: str, *, suspend: bool) -> None:
        async with self._writing(token, self._needed(Right.CHANGE_JOB, job)) as person:
            await person.patch(self._at(job), {"spec": {"suspend": suspend}})

    async def delete(self, token: str, job: str) -> None:
        async with self._writing(token, self._needed(Right.DELETE_JOB, job)) as person:
            await person.delete(self._at(job))

    def _needed(self, right: Right, job: str) -> Needed:
        return Needed(right, self._jobs.object(job)._asdict())

    def _at(self, job: str) -> str:
        at = self._jobs.object(job)
        return paths.training_jobs(at.namespace, at.name)

    @asynccontextmanager
    async def _writing(self, token: str, needed: Needed) -> AsyncIterator[Client]:
        if self._tokens.is_user(token):
            raise NotAllowed(
                "this driver's jobs are TrainingJob objects, which its own token does not change.",
                fix=f"{HOW}; or use kubectl.",
            )
        async with as_person(self._client, token, needed) as person:
            yield person


@asynccontextmanager
async def as_person(client: Client, token: str, needed: Needed) -> AsyncIterator[Client]:
    """A client with this token, whose refusals are the person's. `needed`: for what it is used."""
    try:
        async with client.on_behalf_of(token) as person, _within_rights(person, needed):
            yield person
    except errors.Unauthorized as error:
        raise Stranger("the API server does not know this token.", fix=HOW) from error
    except errors.NotServed as error:
        raise NotThere(errors.NO_DEFINITION, fix=errors.INSTALL) from error
    except errors.NotFound as error:
        raise NotThere(f"{error.said}.", fix="What there is: holdfast jobs") from error
    except errors.AlreadyExists as error:
        fix = "Choose another name, or delete that job first."
        raise InTheWay(f"{error.said}.", fix=fix) from error
    except errors.PermanentAnswer as error:
        raise Wrong(error.said) from error
    except PermanentError as error:
        raise Wrong(str(error)) from error


@asynccontextmanager
async def _within_rights(person: Client, needed: Needed) -> AsyncIterator[None]:
    try:
        yield
    except errors.Forbidden as error:
        raise (
            await denied(person, needed) if error.of_rights else NotAllowed(error.said)
        ) from error


async def denied(person: Client, needed: Needed) -> NotAllowed:
    """Who may not do what where, and which role would let them."""
    may = rights.said(needed.asked)
    where = needed.where.get("namespace")
    at = f"in namespace {where}" if where else "in the whole cluster"
    role = ROLES.get(needed.right)
    fix = f"Bind the ClusterRole {role} {at}." if role else f"Bind a ClusterRole that may {may}."
    return NotAllowed(f"{await rights.who(person)} may not {may}.", fix=fix)


def _plain(namespace: str) -> str:
    """ "" where it is a pattern, which may mean any."""
    return "" if set(namespace) & set("*?[") else namespace
