"""What the driver itself has to be allowed at the API server: the one list, and whether it is.

Used by the wiring before a driver leads, and again once it does; deploy/kubernetes grants exactly
this, which a test holds. Anybody may ask what they themselves may do (SelfSubjectAccessReview), so
that needs no right. Must not decide what follows from it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.kit.backoff import full_jitter
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.kubeapi.errors import Forbidden

Asked = dict[str, str]
"""The `resourceAttributes` of a SelfSubjectAccessReview: verb, group, resource, and where."""

BELIEVED_S = 10.0
"""How long a right has to be refused until that is believed. An API server that has just started
knows no roles and forbids everything for a moment; roles applied with the driver come as late."""

SAID = 3
"""Of the rights that are missing, those that are told: the cure is the same, however many."""


class Rule(NamedTuple):
    """A rule of a role, for one resource; `resource`: RESOURCE[/SUBRESOURCE], as roles have it."""

    group: str
    resource: str
    verbs: tuple[str, ...]

    def asked(self, **where: str) -> list[Asked]:
        """A review for each verb; `where`: namespace ("" is all of them) and name."""
        resource, _, subresource = self.resource.partition("/")
        about = {"group": self.group, "resource": resource, "subresource": subresource}
        return [{"verb": verb, **about, **where} for verb in self.verbs]


IN_NAMESPACES = (
    Rule(paths.GROUP, "trainingjobs", ("list", "watch", "delete")),
    Rule(paths.GROUP, "trainingjobs/status", ("patch",)),
    Rule("", "pods", ("get", "list", "watch", "create", "delete", "patch")),
    Rule("events.k8s.io", "events", ("create",)),
)
"""In all namespaces, or in the one that the driver is for."""

OF_THE_CLUSTER = (
    Rule("", "nodes", ("get", "list", "watch", "patch")),
    Rule("", "nodes/status", ("patch",)),
    Rule("authentication.k8s.io", "tokenreviews", ("create",)),
)
"""Nodes and reviews are in no namespace."""

OF_PRIORITIES = Rule("scheduling.k8s.io", "priorityclasses", ("list", "watch"))
"""Where a driver is for all namespaces, and so sees the pods of all: whom its own push off."""

ABOUT_NODES = Rule("events.k8s.io", "events", ("create",))
"""An Event about what is in no namespace has to be in `default`: the API server takes no other."""

OF_THE_LEASE = Rule("coordination.k8s.io", "leases", ("get", "create", "update"))
"""Of the one that drivers share, by its name."""

OF_POD_GROUPS = Rule("scheduling.k8s.io", "podgroups", ("create", "delete"))
"""Where a driver is told to use them."""


def needed(
    *, namespace: str, lease: str, pod_groups: bool = False, vital: bool = False
) -> list[Asked]:
    """All that a driver for `namespace` ("": all) needs; `lease`: NAMESPACE/NAME, "" for none.

    `vital`: only what nothing works without.
    """
    within = (*IN_NAMESPACES, OF_POD_GROUPS) if pod_groups else IN_NAMESPACES
    asked = [each for rule in within for each in rule.asked(namespace=namespace)]
    of_the_cluster = OF_THE_CLUSTER if namespace or vital else (OF_PRIORITIES, *OF_THE_CLUSTER)
    asked += [each for rule in of_the_cluster for each in rule.asked()]
    if namespace not in ("", paths.DEFAULT) and not vital:
        asked += ABOUT_NODES.asked(namespace=paths.DEFAULT)
    if lease:
        at, _, name = lease.partition("/")
        asked += OF_THE_LEASE.asked(namespace=at, name=name)
    return asked


def review(asked: Mapping[str, str]) -> dict[str, Any]:
    """What is posted to have whoever posts it told whether they may."""
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }


def said(asked: Mapping[str, str]) -> str:
    """As a person would ask for it: `patch nodes/status`, `list pods in all namespaces`."""
    group = f".{asked['group']}" if asked.get("group") else ""
    below = f"/{asked['subresource']}" if asked.get("subresource") else ""
    name = f" {asked['name']}" if asked.get("name") else ""
    return f"{asked['verb']} {asked['resource']}{group}{below}{name}{_where(asked)}"


def _where(asked: Mapping[str, str]) -> str:
    if "namespace" not in asked:
        return ""
    return f" in namespace {asked['namespace']}" if asked["namespace"] else " in all namespaces"


class Unasked(TemporaryError):
    """The server does not even let us ask, as some clusters have it, or it has just started."""


async def missing(client: Client, asked: Sequence[Asked]) -> list[Asked]:
    """Those of `asked` that the server refuses now, asked all at once.

    Raises `ports.TemporaryError` where it does not say, `Unasked` where it forbids the question.
    """
    answers = await asyncio.gather(*(_may(client, each) for each in asked), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [each for each, may in zip(asked, answers, strict=True) if not may]


async def confirm(
    client: Client, asked: Sequence[Asked], *, believed_s: float = BELIEVED_S
) -> None:
    """Return once everything in `asked` is allowed.

    Raises `PermanentError` with what is not, once that was refused for `believed_s`;
    `TemporaryError` where the server does not answer, or lets nobody ask for so long.
    """
    now_s, waits = asyncio.get_running_loop().time, full_jitter(base_s=0.1, cap_s=1.0)
    deadline_s = now_s() + believed_s
    while True:
        late = now_s() >= deadline_s
        try:
            lacking = await missing(client, asked)
        except Unasked:
            if late:
                raise
        else:
            if not lacking:
                return
            if late:
                raise PermanentError(await _sentence(client, lacking))
        await asyncio.sleep(next(waits))


async def _sentence(client: Client, lacking: Sequence[Asked]) -> str:
    more = f", and {len(lacking) - SAID} more" if len(lacking) > SAID else ""
    return (
        f"rights: {await who(client)} may not {', '.join(map(said, lacking[:SAID]))}{more}. "
        "Apply the roles of deploy/kubernetes, or of your overlay of it, anew."
    )


async def _may(client: Client, asked: Asked) -> bool:
    """Whatever is neither yes nor no, from a proxy say, is no answer."""
    try:
        answer = await client.ask(paths.self_access_reviews(), review(asked))
    except Forbidden as forbidden:
        raise Unasked(f"it may not be asked: {forbidden}") from forbidden
    except PermanentError as other:
        raise TemporaryError(str(other)) from other
    return bool(answer.get("status", {}).get("allowed"))


async def who(client: Client) -> str:
    """Who the server takes us for, in a person's words."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await client.ask(paths.self_reviews(), body)
    except PermanentError:  # what is missing is worth more than whose it is
        return "this account"
    name: str = answer["status"]["userInfo"]["username"]
    account = name.removeprefix("system:serviceaccount:")
    return f"the service account {account}" if account != name else name
