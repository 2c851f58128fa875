"""The lead as a Lease of `coordination.k8s.io`: who renews it leads, who is silent may be followed.

Made by `driver.lead.opening`. It only says who tries: a Lease that is deleted, stolen or out of
reach stops nobody, for what may be written the term in the journal decides. So times of other
machines are never compared: a Lease is over when it did not change here for LEASE_S. Must not be
used for anything that is dangerous to do twice.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.driver.settings import Settings
from holdfast.kit.clock import Clock, WorldClock
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client, Limits
from holdfast.kubeapi.errors import NotFound
from holdfast.protocol.version import FIELD_MANAGER

Object = dict[str, Any]

LEASE_S = 6.0
"""Without a sign of its holder a Lease is over. It is renewed each second; to follow a leader that
lives costs a moment without decisions, and no step of any job."""

ANSWER_S = 3.0
"""Of the API server: two tries within the life of a Lease."""

USER_AGENT = f"{FIELD_MANAGER}/lease"


class LeaseLead:
    """A `standby.Lead`. `name` is the holder's identity: that of the pod, of which there is one."""

    def __init__(
        self, client: Client, *, namespace: str, lease: str, name: str, clock: Clock
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._lease = lease
        self._name = name
        self._clock = clock
        self._sign: object = None  # what the holder renews, as it was last seen
        self._since_s = 0.0

    async def seek(self) -> str:
        """See `standby.Lead`."""
        try:
            found = await self._found()
            holder = self._holder(found)
            if holder not in ("", self._name) and not self._over(found):
                return holder
            await self._write(found, self._name)
        except (TemporaryError, PermanentError) as error:
            said = f"lead: Lease {self._namespace}/{self._lease} cannot be had ({error})"
            raise TemporaryError(said) from error
        return ""

    async def close(self) -> None:
        """Give it up at once where it is ours; a Lease that cannot be reached runs out."""
        try:
            found = await self._found()
            if self._holder(found) == self._name:
                await self._write(found, "")
        except (TemporaryError, PermanentError):
            return

    async def _found(self) -> Object:
        """The Lease, or one that is not written yet."""
        try:
            return await self._client.get(self._at)
        except NotFound:
            return {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._lease, "namespace": self._namespace},
                "spec": {},
            }

    async def _write(self, found: Object, holder: str) -> None:
        """By PUT, which also makes it: of a POST nobody could be allowed one name alone.

        Raises `Conflict` where another was faster.
        """
        spec = found.get("spec") or {}
        now = self._clock.wall().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        new = {**spec, "holderIdentity": holder, "renewTime": now}
        new["leaseDurationSeconds"] = int(LEASE_S)
        if holder and spec.get("holderIdentity") != holder:
            transitions = int(spec.get("leaseTransitions", 0)) + 1
            new |= {"acquireTime": now, "leaseTransitions": transitions}
        await self._client.replace(self._at, {**found, "spec": new})

    def _over(self, found: Object) -> bool:
        """Whether nobody renewed it for LEASE_S since we look."""
        spec, now_s = found.get("spec") or {}, self._clock.monotonic_s()
        sign = spec.get("holderIdentity"), spec.get("renewTime")
        if sign != self._sign:
            self._sign, self._since_s = sign, now_s
        return now_s - self._since_s > LEASE_S

    @staticmethod
    def _holder(found: Object) -> str:
        return str((found.get("spec") or {}).get("holderIdentity") or "")

    @property
    def _at(self) -> str:
        return paths.leases(self._namespace, self._lease)


@asynccontextmanager
async def lease(settings: Settings, *, name: str) -> AsyncIterator[LeaseLead]:
    """The Lease that the settings name, given up at the end; calls of its own wait for no other."""
    namespace, _, called = settings.lease.partition("/")
    limits = Limits(answer_within_s=ANSWER_S)
    async with Client.of(settings.kubeconfig, user_agent=USER_AGENT, limits=limits) as client:
        lead = LeaseLead(client, namespace=namespace, lease=called, name=name, clock=WorldClock())
        try:
            yield lead
        finally:
            await lead.close()
