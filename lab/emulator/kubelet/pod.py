"""One pod on one node: brings its containers to what the API server wants, and tells how they are.

Made by `agent` for each pod of its node; adopted with whatever the runtime still runs of it. Each
`step` looks at all there is and does what is next, so that a lost order or answer costs a step.
Must not act on anything but what the node itself has read over its own link.
"""

import contextlib
import math
import time
from collections.abc import Callable
from typing import Any

from msgspec import structs

from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Patch
from holdfast.kubeapi.errors import Conflict, Forbidden, NotFound
from holdfast.lab.emulator.kubelet import orders, podspec, podstatus
from holdfast.lab.emulator.kubelet.orders import Life, Phase
from holdfast.lab.emulator.kubelet.podspec import BadReference
from holdfast.lab.emulator.kubelet.podstatus import TERMINAL, Seen, Waiting
from holdfast.lab.emulator.kubelet.preparing import Preparation, Surroundings, last_words, log_path
from holdfast.lab.emulator.kubelet.probes import Probing
from holdfast.lab.emulator.kubelet.restarts import Restarts
from holdfast.lab.emulator.kubelet.times import stamp

Object = dict[str, Any]
AGAIN_S = 1.0
"""After something that a pod needs was not there."""
LOOK_AGAIN_S = 60.0
"""Where nothing is expected to happen by itself."""
UNKNOWN_EXIT_CODE = 137


class Pod:
    """One pod by its UID, until `over`. `changed` is called when its next step is due at once."""

    def __init__(self, around: Surroundings, wanted: Object, changed: Callable[[], None]) -> None:
        self._around = around
        self._changed = changed
        self.wanted: Object | None = wanted
        """As the API server has it; None once it has it no more."""
        self._pod = wanted
        self.uid: str = wanted["metadata"]["uid"]
        self.name = f"{wanted['metadata']['namespace']}/{wanted['metadata']['name']}"
        self.over = False
        self.lives: dict[str, Life] = {}
        self._lost: dict[str, Life] = {}
        self._previous: dict[str, Life] = {}
        self._probing: dict[tuple[str, int], Probing] = {}
        self._preparation = Preparation(around)
        self._restarts = Restarts(around.restart_base_s)
        self._stops_within_s = math.inf
        self._told: Object | None = None
        self._started_at = stamp(time.time())

    @property
    def runs(self) -> bool:
        return any(life.phase is Phase.RUNNING for life in self.lives.values())

    def log(self, container: str, attempt: int) -> str:
        """Path of the output of one life of a container."""
        return str(log_path(self._around.logs, self._pod, container, attempt))

    async def step(self) -> float:
        """Do what is next; after how many seconds to look again though nothing happened."""
        if self.wanted is None:
            await self._around.runtime.order(orders.Forget(uid=self.uid))
            self.over = True
            return 0.0
        self._pod = self.wanted
        if "deletionTimestamp" in self._pod["metadata"]:
            return await self._end()
        if self._pod.get("status", {}).get("phase") in TERMINAL and not self.runs:
            return LOOK_AGAIN_S
        if wrong := podspec.refusals(self._pod):
            await self._tell({}, failure=("Refused", " ".join(wrong)))
            return LOOK_AGAIN_S
        again_s = await self._run()
        self._probe()
        seen = self._seen()
        if self._preparation.waiting != Waiting() or all(one.life for one in seen.values()):
            await self._tell(seen)
        return again_s

    def close(self) -> None:
        """Stop asking its containers anything. They go on."""
        for probing in self._probing.values():
            probing.end()

    # ------------------------------------------------------------ to run it

    async def _run(self) -> float:
        if not await self._preparation.prepare(self._pod):
            return AGAIN_S
        now_s = time.time()
        renew_at_s = self._preparation.renew_at_s
        waits = [LOOK_AGAIN_S, renew_at_s - now_s] if renew_at_s else [LOOK_AGAIN_S]
        for container in self._containers():
            life = self._life(container)
            if life is None:
                await self._start(container, 0)
            elif life.phase is Phase.EXITED and not podstatus.exit_is_final(self._policy, life):
                wait_s = self._restarts.wait_s(life, now_s)
                waits.append(wait_s)
                if wait_s <= 0:
                    self._previous[life.container] = self._with_words(container, life) or life
                    self._restarts.restarted(life)
                    await self._start(container, life.attempt + 1)
        return max(0.05, min(waits))

    async def _start(self, container: Object, attempt: int) -> None:
        try:
            order = self._preparation.order(self._pod, container, attempt)
        except BadReference as error:
            self._preparation.waiting = Waiting("CreateContainerConfigError", str(error))
            return
        await self._around.runtime.order(order)

    def _probe(self) -> None:
        """Probes for every life that has any, and for no life that is over."""
        running = {
            (life.container, life.attempt): life
            for life in self.lives.values()
            if life.phase is Phase.RUNNING
        }
        for key in self._probing.keys() - running.keys():
            self._probing.pop(key).end()
        for container in self._containers():
            for key, life in running.items():
                wanted = key[0] == container["name"] and any(
                    kind in container for kind in podspec.PROBES
                )
                if wanted and key not in self._probing:
                    made = Probing(self._around, self._pod, container, life, self._changed)
                    self._probing[key] = made

    # ------------------------------------------------------------ to end it

    async def _end(self) -> float:
        """SIGTERM, grace and SIGKILL are the runtime's; then the last word, and the object goes."""
        meta = self._pod["metadata"]
        self.close()
        if self.runs:
            grace_s = float(meta.get("deletionGracePeriodSeconds", 0))
            if grace_s < self._stops_within_s:  # who deletes it again may be less patient
                await self._around.runtime.order(orders.Stop(uid=self.uid, grace_s=grace_s))
                self._stops_within_s = grace_s
            await self._tell(self._seen())
            return LOOK_AGAIN_S
        await self._tell(self._seen(ending=True))
        at = paths.pods(meta["namespace"], meta["name"])
        gone = contextlib.suppress(NotFound, Forbidden, Conflict)  # or another has its name
        with gone:
            await self._around.client.delete(at, uid=self.uid, grace_s=0)
        self.wanted = None
        return 0.0

    # ------------------------------------------------------------ to tell how it is

    def _seen(self, ending: bool = False) -> dict[str, Seen]:
        return {one["name"]: self._seen_of(one, ending) for one in self._containers()}

    def _seen_of(self, container: Object, ending: bool) -> Seen:
        life = self._with_words(container, self._life(container))
        if life and self._around.knobs.now().lies:
            life = structs.replace(life, phase=Phase.RUNNING)
        previous = self._previous.get(container["name"])
        if life is None:
            return Seen(None, self._preparation.waiting, previous)
        if life.phase is Phase.RUNNING:
            said = self._probing.get((life.container, life.attempt))
            ready, started = (said.ready, said.started) if said else (True, True)
            return Seen(life, None, previous, ready=ready, started=started)
        if ending or podstatus.exit_is_final(self._policy, life):
            return Seen(life, None, previous)
        return Seen(life, Waiting("CrashLoopBackOff", "restarting failed container"), previous)

    def _with_words(self, container: Object, life: Life | None) -> Life | None:
        """With the end of its output as its message, where it failed and the pod asks for that."""
        asked = container.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        if not asked or life is None or not life.exit_code or life.message:
            return life
        return structs.replace(life, message=last_words(self.log(life.container, life.attempt)))

    async def _tell(self, seen: dict[str, Seen], failure: tuple[str, str] | None = None) -> None:
        """Patch the status where it says anything new. Lost to a conflict: another has the name."""
        status = podstatus.status(
            self._pod,
            seen,
            address=self._around.address,
            now_s=time.time(),
            started_at=self._started_at,
            failure=failure,
        )
        if status == self._told or self._around.knobs.now().drops_statuses:
            return
        meta = self._pod["metadata"]
        at = paths.pods(meta["namespace"], meta["name"], "status")
        body = {"metadata": {"uid": self.uid}, "status": status}
        try:
            answer = await self._around.client.patch(at, body, Patch.STRATEGIC)
        except (NotFound, Conflict):
            return  # the next list tells what became of it
        self._pod["status"] = answer["status"]
        self._told = status

    # ------------------------------------------------------------ helpers

    @property
    def _policy(self) -> str:
        return str(self._pod["spec"].get("restartPolicy", "Always"))

    def _containers(self) -> list[Object]:
        return list(self._pod["spec"]["containers"])

    def _life(self, container: Object) -> Life | None:
        """The container's last life; one that was told and is not there any more was killed."""
        name = container["name"]
        if name in self.lives:
            return self.lives[name]
        told = self._pod.get("status", {}).get("containerStatuses", [])
        before = [one for one in told if one["name"] == name and one.get("containerID")]
        if before and name not in self._lost:
            self._lost[name] = Life(
                uid=self.uid,
                container=name,
                attempt=before[0]["restartCount"],
                phase=Phase.EXITED,
                started_at_s=time.time(),
                finished_at_s=time.time(),
                exit_code=UNKNOWN_EXIT_CODE,
                reason="ContainerStatusUnknown",
                message="the runtime of the node ended, and the container with it",
            )
        return self._lost.get(name)
