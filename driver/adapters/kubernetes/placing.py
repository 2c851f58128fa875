"""Makes, finds and deletes the pods of jobs, one call at a time.

Used by `cluster`. A pod is ours by the UID of its owner, never by its name: one that only has the
name is left alone, and that is said.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.driver.adapters.kubernetes import exampods, facts, pods, podspec
from holdfast.driver.adapters.kubernetes.gang import Gang, Gangs
from holdfast.driver.adapters.kubernetes.holds import Hold
from holdfast.driver.adapters.kubernetes.podbook import PodBook
from holdfast.driver.adapters.kubernetes.podgroups import PodGroups
from holdfast.driver.adapters.kubernetes.retry import retry
from holdfast.driver.adapters.kubernetes.room import Room
from holdfast.driver.adapters.kubernetes.shared_deadline import SharedDeadline
from holdfast.driver.ports import BarredError, PermanentError, TemporaryError, UnfitError
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client, Limits
from holdfast.kubeapi.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    OverQuota,
    PermanentAnswer,
    Unavailable,
)
from holdfast.protocol.nodeenv import Drivers

Object = dict[str, Any]

PLACED_WITHIN_S = 30.0
"""Until a scheduler has placed a pod, from its creation or from when its start last got on; a gang
that misses one gives all back.
"""

AT_ONCE = Limits().calls_at_once
"""Pods that are made, or let through, at a time. All those of a large start at once would only be
prepared one after another, with nothing asked of the API server meanwhile.
"""

RELEASED_WITHIN_S = 30
"""For a pod of which the job wants nothing any more: it has ended its ranks before."""


class Unwanted(UnfitError):
    """The job gave the node up before its pod was placed."""


class Placing:
    """Calls about pods, with what is known of them in `book`."""

    def __init__(
        self,
        client: Client,
        book: PodBook,
        *,
        drivers: Drivers,
        room: Room | None = None,
        pod_groups: bool = False,
        placed_within_s: float = PLACED_WITHIN_S,
    ) -> None:
        self._client = client
        self._book = book
        self._room = room
        self.drivers = drivers
        self._placed_within_s = placed_within_s
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._gangs = Gangs(client, book, self._at_once, within_s=placed_within_s)
        self._groups = PodGroups(client, wanted=pod_groups)
        self.joined = self._gangs.joined

    async def pod(
        self, hold: Hold, owner: Object, node: Object, gang: Gang, *, check: Callable[[], None]
    ) -> Object:
        """The hold's pod on this Node: the one that is there, else a new one.

        Raises `UnfitError` where the node cannot run it, `BarredError` where none could, and what
        `check` raises once the node is wanted no more (`Unwanted`).
        """
        try:
            async with self._at_once:
                check()
                pod = await self._pod(hold, owner, node, gang)
            self._book.wrote(pod)
            check()
        except (TemporaryError, PermanentError) as error:
            if isinstance(error, UnfitError) and not isinstance(error, BarredError):
                gang.left()  # that is about this node: another may come for it
            else:
                gang.refused(str(error))
            raise
        gang.made(pod)
        return pod

    async def placed(self, pod: Object, gang: Gang) -> None:
        """Return once the pod has its node, as all of its gang.

        Raises `UnfitError` with the scheduler's reason; the pod is deleted then. `BarredError`
        where the gang cannot be whole.
        """
        try:
            await self._gangs.let_through(gang, pod)
            await self.bound(pod, gang.deadline)
        except (TemporaryError, PermanentError):
            self._gangs.failed(gang)
            raise
        gang.deadline.moved()

    async def requalify(self, order: exampods.ExamOrder) -> Object:
        """The pod of a requalification: the one that is there, else a new one.

        Raises `UnfitError` where the node cannot run it, and what the API server answers.
        """
        wanted = exampods.manifest(order)
        if why := self._misfit(order.node, wanted):
            raise UnfitError(why)
        try:
            pod = await retry(lambda: self._client.create(paths.pods(order.namespace), wanted))
        except AlreadyExists:
            at = paths.pods(order.namespace, order.name)
            pod = await retry(lambda: self._client.get(at))
            if pods.owner_uid(pod) != order.node["metadata"]["uid"]:
                raise PermanentError(f"pod {order.name} is another's. Delete it.") from None
        self._book.wrote(pod)
        return pod

    async def bound(self, pod: Object, deadline: SharedDeadline | None = None) -> None:
        """Return once a scheduler has put the pod on its node. Raises as `placed`."""
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        try:
            seen = await (deadline or SharedDeadline()).wait(
                lambda: self._book.until(uid, lambda seen: seen is None or pods.bound(seen)),
                within_s=self._placed_within_s,
            )
        except TimeoutError:
            why = pods.hindrance(self._book.get(uid) or pod) or "no scheduler placed it"
            await self.delete(pod, force=False)
            unseen = self._room.unseen() if self._room is not None else ""
            told = "; ".join(filter(None, (why, unseen)))
            raise UnfitError(f"pod {name} was not placed: {told}", late=True) from None
        if seen is None or pods.ending(seen):
            raise UnfitError(f"pod {name} was deleted before it ran")
        if seen["spec"]["nodeName"] != pods.node_of(seen):
            await self.delete(pod, force=False)
            raise BarredError(
                f"pod {name} was put on node {seen['spec']['nodeName']} instead of "
                f"{pods.node_of(seen)}: something changed its affinity, or placed it by itself"
            )

    async def delete(self, pod: Object, *, force: bool) -> None:
        """Delete this pod and no other of its name; `force`: without its node's consent."""
        metadata = pod["metadata"]
        self._book.give_up(metadata["uid"])  # the watch tells of it later
        at = paths.pods(metadata["namespace"], metadata["name"])

        async def once() -> None:
            try:
                grace_s = 0 if force else RELEASED_WITHIN_S
                await self._client.delete(at, uid=metadata["uid"], grace_s=grace_s)
            except (NotFound, Conflict):
                self._book.drop(pod)  # it is gone; the name may be another's by now

        await retry(once)

    async def _pod(self, hold: Hold, owner: Object, node: Object, gang: Gang) -> Object:
        name = node["metadata"]["name"]
        if known := self._book.living(name, owner):
            return known
        while True:
            incarnation = self._book.next_incarnation(hold.owner, hold.slot)
            held = await self._groups.held(owner, gang) if gang.holds else None
            order = podspec.Order(owner, name, hold.slot, incarnation, self.drivers, held)
            if why := self._misfit(node, wanted := podspec.manifest(order)):
                raise UnfitError(why, others=self._others(hold, wanted, gang))
            if pod := await self._make(order):
                return pod
            self._book.skip(hold.owner, hold.slot, incarnation)

    def _misfit(self, node: Mapping[str, Any], wanted: Object) -> str:
        return facts.misfit(node, wanted) if self._room is None else self._room.misfit(node, wanted)

    def _others(self, hold: Hold, wanted: Object, gang: Gang) -> dict[str, str]:
        """Once a start: each of its pods that is refused is refused by the same nodes."""
        if self._room is None or gang.others_told:
            return {}
        gang.others_told = True
        return self._room.refuse(hold.job, wanted)

    async def _make(self, order: podspec.Order) -> Object | None:
        """The pod, made or found; None where an earlier TrainingJob's pod, or one that ends, has
        the name.
        """
        namespace = order.job["metadata"]["namespace"]
        try:
            return await retry(lambda: self._create(paths.pods(namespace), order))
        except AlreadyExists:
            at = paths.pods(namespace, order.name)
            found = await retry(lambda: self._client.get(at))
        except (PermanentAnswer, OverQuota) as refusal:
            raise _barred(refusal) from refusal
        except Unavailable as failed:
            if failed.of_webhook:  # others' pods may pass it
                raise _barred(failed) from failed
            raise
        owner = pods.owner_uid(found)
        if not owner and not pods.ending(found):
            raise BarredError(
                f"pod {order.name} in namespace {namespace} is not of this job, and has the name "
                "that its pod would get. Delete or rename it."
            )
        ours = owner == order.job["metadata"]["uid"] and pods.node_of(found) == order.node
        return found if ours and not pods.ending(found) else None

    async def _create(self, at: str, order: podspec.Order) -> Object | None:
        """A start that is over its quota does not wait for room: others may have the nodes.

        None where the pod is not in the group that it is to be in: it goes again.
        """
        try:
            pod = await self._client.create(at, podspec.manifest(order))
        except OverQuota as refusal:
            if order.held:
                raise _barred(refusal) from refusal
            raise
        except Forbidden as refusal:
            if refusal.of_rights:  # it says nothing of node or job, and may pass
                raise TemporaryError(str(refusal)) from refusal
            raise
        if self._groups.has(pod, order):
            return pod
        await self.delete(pod, force=False)
        return None


def _barred(refusal: ApiError) -> BarredError:
    return BarredError(f"the API server refuses its pods: {refusal.said}")
