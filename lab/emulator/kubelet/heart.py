"""The signs of life of one node: its Node object, its status and its lease, over its own link.

Run by `agent`. A node whose link is cut sends none, which is the point: nobody says so for it.
"""

import asyncio
import contextlib
import platform
import time
from collections.abc import Callable
from typing import Any

from holdfast.keeper.state import NodeRecord
from holdfast.kit.logs import LazyLogger
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client, Patch
from holdfast.kubeapi.errors import AlreadyExists, ApiError, NotFound
from holdfast.lab.emulator.kubelet import nodeobject
from holdfast.lab.emulator.kubelet.knobs import KnobsOf
from holdfast.lab.emulator.kubelet.nodeobject import Shape

RENEWALS_IN_A_LEASE = 4
ANSWER_S = 10.0
"""Of the API server to one beat, but no longer than the lease is good, as kubelets have it: whoever
hangs up sooner is never heard by a slow one.
"""
STATUS_EVERY_S = 10.0
REPORT_AFTER_S = 60.0
"""A status that says nothing new is told again after this long."""
NAMESPACE = "kube-node-lease"

log = LazyLogger()


class Heart:
    """Beats until it is cancelled. `heard` is called when the API server answers again."""

    def __init__(
        self,
        record: NodeRecord,
        client: Client,
        knobs: KnobsOf,
        shape: Shape,
        port: int,
        *,
        ready: Callable[[], tuple[bool, str]],
        heard: Callable[[], None],
    ) -> None:
        self._record = record
        self._client = client
        self._knobs = knobs
        self._shape = shape
        self._port = port
        self._ready = ready
        self._heard = heard
        self._uid = ""
        self._status_due_s = 0.0
        self._reported_s = 0.0
        self._away = "not heard yet"
        self._spoken = asyncio.Event()

    @property
    def beat_s(self) -> float:
        """Pause between two renewals."""
        return self._shape.lease_s / RENEWALS_IN_A_LEASE

    def speak(self) -> None:
        """Have the status told with the next beat, which is now."""
        self._status_due_s = 0.0
        self._spoken.set()

    async def run(self) -> None:
        while True:
            await self._knobs.thawed()
            try:
                async with asyncio.timeout(min(ANSWER_S, self._shape.lease_s)):
                    await self._beat()
            except (ApiError, OSError, TimeoutError) as error:
                self._lost(str(error) or "no answer in time")
                await asyncio.sleep(min(1.0, self.beat_s))
                continue
            if self._away:
                log.info("the API server answers", node=self._record.name)
                self._away = ""
                self._heard()
            self._spoken.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.beat_s):
                    await self._spoken.wait()

    async def _beat(self) -> None:
        knobs = self._knobs.now()
        if not self._uid:
            self._uid = (await self._register())["metadata"]["uid"]
        if not knobs.drops_leases:
            await self._renew()
        now_s = time.monotonic()
        if self._away or now_s >= self._status_due_s:
            await self._report(now_s, lies=knobs.lies)
            self._status_due_s = now_s + min(STATUS_EVERY_S, self._shape.lease_s)

    async def _register(self) -> dict[str, Any]:
        name, rack = self._record.name, self._record.rack
        try:
            wanted = nodeobject.node(name, rack, platform.machine(), self._shape.run)
            return await self._client.create(paths.nodes(), wanted)
        except AlreadyExists:
            return await self._client.get(paths.nodes(name))

    async def _renew(self) -> None:
        name = self._record.name
        lease = nodeobject.lease(name, self._uid, self._shape.lease_s, time.time())
        owned = {"ownerReferences": lease["metadata"]["ownerReferences"]}  # maybe an earlier node's
        renewal = {"metadata": owned, "spec": lease["spec"]}
        try:
            await self._client.patch(paths.leases(NAMESPACE, name), renewal)
        except NotFound:
            await self._client.create(paths.leases(NAMESPACE), lease)

    async def _report(self, now_s: float, *, lies: bool) -> None:
        """Tell the status where it is not what the API server has, or was told long ago."""
        at = paths.nodes(self._record.name)
        try:
            seen = (await self._client.get(at)).get("status", {})
        except NotFound:
            self._uid = ""  # somebody deleted it: we register anew
            return
        wanted = nodeobject.status(
            seen,
            address=self._record.address,
            port=self._port,
            shape=self._shape,
            now_s=time.time(),
            ready=(True, "the runtime answers") if lies else self._ready(),
        )
        if nodeobject.differs(seen, wanted) or now_s - self._reported_s > REPORT_AFTER_S:
            body = {"status": wanted}
            await self._client.patch(
                paths.nodes(self._record.name, "status"), body, Patch.STRATEGIC
            )
            self._reported_s = now_s

    def _lost(self, why: str) -> None:
        if not self._away:
            log.warning("the API server does not answer", node=self._record.name, why=why)
        self._away = why
