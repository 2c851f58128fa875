"""The kubelet of one node: its heart, its pods, and the runtime that runs them.

Made by `serve` for each node, in one process for all. The shared watch only wakes it (`hint`):
what is wanted it reads itself, over the node's own link, so that a node that is cut off hears of
nothing, and what runs there goes on.
"""

import asyncio
from typing import Any

from holdfast.keeper.state import NodeRecord
from holdfast.kit.logs import LazyLogger
from holdfast.kubeapi import paths
from holdfast.kubeapi.errors import ApiError
from holdfast.lab.emulator.kubelet import orders
from holdfast.lab.emulator.kubelet.heart import Heart
from holdfast.lab.emulator.kubelet.nodeobject import Shape
from holdfast.lab.emulator.kubelet.orders import Life, Snapshot
from holdfast.lab.emulator.kubelet.pod import Pod
from holdfast.lab.emulator.kubelet.preparing import Surroundings
from holdfast.lab.emulator.kubelet.runtimes import Refused

LOOK_AGAIN_S = 10.0
"""How often it reads what is wanted though nothing woke it."""
AGAIN_S = 0.5
"""After something that did not answer."""

log = LazyLogger()


class Agent:
    """One node's, until it is cancelled. Its containers go on then, for the next to adopt."""

    def __init__(self, record: NodeRecord, around: Surroundings, shape: Shape, port: int) -> None:
        self._record = record
        self._around = around
        self._knobs = around.knobs
        self._pods: dict[str, Pod] = {}
        self._woken: dict[str, asyncio.Event] = {}
        self._snapshot: Snapshot | None = None
        self._look = asyncio.Event()
        self._heart = Heart(
            record,
            around.client,
            self._knobs,
            shape,
            port,
            ready=self._ready,
            heard=self._look.set,
        )

    async def run(self) -> None:
        """Keep the node."""
        async with self._around.client, asyncio.TaskGroup() as group:
            group.create_task(self._heart.run())
            group.create_task(self._hear_the_runtime())
            group.create_task(self._look_for_pods(group))

    def hint(self, pod: dict[str, Any], removed: bool) -> None:
        """The shared watch saw this pod of ours; what it was told of is no news."""
        known = self._pods.get(pod["metadata"]["uid"])
        wanted = known.wanted if known else None
        same = wanted is not None and _asked(wanted) == _asked(pod)
        if known is not None if removed else not same:
            self._look.set()

    def pod(self, namespace: str, name: str) -> Pod | None:
        """For whoever reads its logs."""
        named = [pod for pod in self._pods.values() if pod.name == f"{namespace}/{name}"]
        return named[-1] if named else None

    def _ready(self) -> tuple[bool, str]:
        if self._snapshot is None:
            return False, "the runtime is silent"
        degraded = self._snapshot.degraded
        return True, f"the runtime answers{f'; {degraded}' if degraded else ''}"

    # ------------------------------------------------------------ what is there

    async def _hear_the_runtime(self) -> None:
        while True:
            try:
                async for snapshot in self._around.runtime.snapshots():
                    if self._snapshot is None:
                        self._look.set()
                        self._heart.speak()
                    self._snapshot = snapshot
                    self._share(snapshot.lives)
            except OSError:
                if self._snapshot is not None:
                    log.warning("the runtime is silent", node=self._record.name)
                self._snapshot = None
                self._heart.speak()
                await asyncio.sleep(AGAIN_S)

    def _share(self, lives: list[Life]) -> None:
        for uid, pod in self._pods.items():
            mine = {life.container: life for life in lives if life.uid == uid}
            if mine != pod.lives:
                pod.lives = mine
                self._woken[uid].set()

    # ------------------------------------------------------------ what is wanted

    async def _look_for_pods(self, group: asyncio.TaskGroup) -> None:
        while True:
            try:
                async with asyncio.timeout(LOOK_AGAIN_S):
                    await self._look.wait()
            except TimeoutError:
                pass
            self._look.clear()
            knobs = await self._knobs.thawed()
            if knobs.drops_pods or self._snapshot is None:
                continue
            try:
                wanted = await self._read_wanted()
            except (ApiError, OSError):
                continue  # cut off: the heart says when it is over, and nothing changes until then
            self._adopt(wanted, group)

    async def _read_wanted(self) -> dict[str, dict[str, Any]]:
        """The pods bound to this node by UID, as the node itself reads them."""
        mine = f"spec.nodeName={self._record.name}"
        pages = self._around.client.pages(paths.pods(), fieldSelector=mine)
        return {pod["metadata"]["uid"]: pod async for page in pages for pod in page["items"]}

    def _adopt(self, wanted: dict[str, dict[str, Any]], group: asyncio.TaskGroup) -> None:
        """Every pod that is wanted or still here has its task, and knows what is wanted of it."""
        snapshot = self._snapshot or Snapshot(lives=[], prepared=[])
        for uid, pod in wanted.items():
            if uid not in self._pods:
                woken = self._woken[uid] = asyncio.Event()
                self._pods[uid] = Pod(self._around, pod, woken.set)
                self._share(snapshot.lives)
                group.create_task(self._tend(self._pods[uid]))
        for uid, known in self._pods.items():
            known.wanted = wanted.get(uid)
            self._woken[uid].set()
        for uid in {*snapshot.prepared, *(life.uid for life in snapshot.lives)} - self._pods.keys():
            group.create_task(self._forget(uid))

    async def _tend(self, pod: Pod) -> None:
        woken, refusal = self._woken[pod.uid], ""
        try:
            while not pod.over:
                woken.clear()
                knobs = await self._knobs.thawed()
                await asyncio.sleep(knobs.slow_s)
                try:
                    again_s = await pod.step()
                except (ApiError, OSError, Refused) as error:
                    again_s = AGAIN_S
                    if str(error) != refusal:
                        log.warning("a pod waits", pod=pod.name, why=str(error))
                    refusal = str(error)
                if not pod.over:
                    await _either(woken, again_s)
        finally:
            pod.close()
        del self._pods[pod.uid], self._woken[pod.uid]

    async def _forget(self, uid: str) -> None:
        """What runs here though nobody wants it: its pod went while no kubelet was there."""
        try:
            await self._around.runtime.order(orders.Forget(uid=uid))
        except (OSError, Refused):
            self._look.set()


async def _either(event: asyncio.Event, within_s: float) -> None:
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        pass


def _asked(pod: dict[str, Any]) -> tuple[Any, ...]:
    """What of a pod asks the node to do something."""
    meta = pod["metadata"]
    return meta.get("deletionTimestamp"), meta.get("generation")
