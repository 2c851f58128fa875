"""All pods of a start are there, or none is placed.

Used by `placing`. A pod that is held takes no room on its node and pushes nobody else's pod off it.
Gates are taken off once the job has a pod for each of its places, when a scheduler lets a PodGroup
through, too; when one is refused and not enough are left, all others are told at once. Must not
delete a pod: the core gives nodes back.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.driver.adapters.kubernetes import names, pods
from holdfast.driver.adapters.kubernetes.podbook import PodBook
from holdfast.driver.adapters.kubernetes.retry import retry
from holdfast.driver.adapters.kubernetes.shared_deadline import SharedDeadline
from holdfast.driver.ports import BarredError, UnfitError
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client, Patch
from holdfast.kubeapi.errors import Conflict, NotFound

Object = dict[str, Any]

NO_GATE = {"spec": {"schedulingGates": [{"$patch": "delete", "name": names.GATE}]}}
"""A strategic merge patch: gates of others stay."""

UNTRACKED: Object = {"managedFields": [{}]}
"""Of the metadata: nobody's fields are tracked in this pod from now on, which nobody applies by its
manifest. It spares the API server a third of what this patch and each later one cost it
(docs/decisions/starting-all-pods-or-none.md).
"""


class Gang:
    """The pods of one job that are being made now, and those that it has."""

    def __init__(self, book: PodBook, job: Object, deadline: SharedDeadline | None = None) -> None:
        self._book = book
        self.job: str = job["metadata"]["uid"]
        self._needed: int = job["spec"].get("nodes", 1)
        self._made: set[str] = set()  # UIDs of pods
        self._waiting: set[str] = set()  # likewise
        self.members = 0
        self.coming = 0  # members that have no pod yet
        self.why = ""  # the gang cannot be whole
        self.others_told = False  # which nodes have no room for any pod of it
        self.deadline = deadline or SharedDeadline()
        self.holds = self._needed > 1 and all(map(pods.held, self._staying()))
        """False once a pod has gone through: what comes then only joins the others."""
        self.group = next(filter(None, map(pods.group_of, self._staying())), "")
        """Name of the PodGroup in which the pods of this start are, "" where they are in none."""

    def made(self, pod: Object) -> None:
        """A member has its pod."""
        self._book.wrote(pod)
        self._made.add(pod["metadata"]["uid"])
        self.deadline.moved()
        self.coming -= 1
        if self.holds and self._there() >= self._needed:
            self.holds = False
            self._tell()

    def left(self) -> None:
        """A member is wanted no more: another may come for it."""
        self.coming -= 1

    def refused(self, why: str) -> None:
        """A member gets no pod; where the others are too few now, they need not wait."""
        self.coming -= 1
        if self.holds and self._there() + self.coming < self._needed:
            self.why = why
            self._tell()

    async def whole(self, pod: Object, *, within_s: float) -> None:
        """Return once all are there.

        Raises `BarredError` where the gang cannot be whole, `UnfitError` when no pod has come for
        `within_s`, or this one goes.
        """
        uid = pod["metadata"]["uid"]
        self._waiting.add(uid)
        try:
            seen = await self.deadline.wait(
                lambda: self._book.until(uid, self._decided), within_s=within_s
            )
        except TimeoutError:
            said = f"{self._there()} of the {self._needed} pods of its start are there"
            raise UnfitError(said) from None
        finally:
            self._waiting.discard(uid)
        if self.why:
            raise BarredError(self.why)
        if _goes(seen):
            raise UnfitError(
                f"pod {pod['metadata']['name']} was deleted before its start was whole"
            )

    def _decided(self, seen: Object | None) -> bool:
        return not self.holds or bool(self.why) or _goes(seen)

    def _tell(self) -> None:
        for uid in self._waiting:
            self._book.ring(uid)

    def _there(self) -> int:
        """How many pods are there to stay; counted only where there may be enough.

        One that the watch has told and that no member has yet goes again where it is not held.
        """
        known = self._book.count(self.job)
        return known if known < self._needed else sum(map(self._counts, self._staying()))

    def _counts(self, pod: Object) -> bool:
        return pods.held(pod) or pod["metadata"]["uid"] in self._made

    def _staying(self) -> Iterator[Object]:
        return filter(self._book.stays, self._book.of(self.job))


def _goes(pod: Object | None) -> bool:
    return pod is None or pods.ending(pod)


class Gangs:
    """The gang of each job of which pods are being made."""

    def __init__(
        self, client: Client, book: PodBook, at_once: asyncio.Semaphore, *, within_s: float
    ) -> None:
        self._client = client
        self._book = book
        self._at_once = at_once
        self._within_s = within_s
        self._gangs: dict[str, Gang] = {}  # by UID of the job

    @contextmanager
    def joined(self, job: Object) -> Iterator[Gang]:
        """One more pod of the job is being made, within."""
        uid = job["metadata"]["uid"]
        if uid not in self._gangs:
            self._gangs[uid] = Gang(self._book, job, SharedDeadline(self._client.may_change))
        gang = self._gangs[uid]
        gang.members += 1
        gang.coming += 1
        try:
            yield gang
        finally:
            gang.members -= 1
            if not gang.members:
                self._forget(gang)

    def failed(self, gang: Gang) -> None:
        """A pod of it was not placed. Once it was let through, who comes next begins another start:
        that waits for all of its own again.
        """
        if not gang.holds:
            self._forget(gang)

    def _forget(self, gang: Gang) -> None:
        if self._gangs.get(gang.job) is gang:
            del self._gangs[gang.job]

    async def let_through(self, gang: Gang, pod: Object) -> None:
        """Wait until all are there, then take the pod's gate off. Raises as `Gang.whole`."""
        if pods.held(pod):
            await gang.whole(pod, within_s=self._within_s)
        if pods.gated(pod):
            async with self._at_once:
                await retry(lambda: self._open(pod))
            gang.deadline.moved()

    async def _open(self, pod: Object) -> None:
        metadata = pod["metadata"]
        at = paths.pods(metadata["namespace"], metadata["name"])
        body = {"metadata": {"uid": metadata["uid"], **UNTRACKED}, **NO_GATE}
        try:
            self._book.wrote(await self._client.patch(at, body, Patch.STRATEGIC))
        except (NotFound, Conflict):
            self._book.drop(pod)  # it is gone; the name may be another's by now
