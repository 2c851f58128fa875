"""One pod on one node: brings its containers to what the API server wants, and tells how they are.

Made by `agent` for each pod of its node; adopted with whatever the runtime still runs of it. Each
`step` looks at all there is and does what is next, so that a lost order or answer costs a step.
Must not act on anything but what the node itself has read over its own link.
"""

import contextlib
import time
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from holdfast.driver.adapters.kubernetes import paths
from holdfast.driver.adapters.kubernetes.client import Client, Patch
from holdfast.driver.adapters.kubernetes.errors import Conflict, Forbidden, NotFound
from holdfast.keeper.processes import RUN_MARK
from holdfast.lab.emulator.kubelet import orders, podspec, podstatus, volumes
from holdfast.lab.emulator.kubelet.images import Images
from holdfast.lab.emulator.kubelet.knobs import Knobs
from holdfast.lab.emulator.kubelet.orders import Life, Phase
from holdfast.lab.emulator.kubelet.podspec import BadReference, Here
from holdfast.lab.emulator.kubelet.podstatus import TERMINAL, Seen, Waiting
from holdfast.lab.emulator.kubelet.restarts import Restarts
from holdfast.lab.emulator.kubelet.runtimes import Refused, RuntimeOf
from holdfast.lab.emulator.kubelet.times import stamp

Object = dict[str, Any]
AGAIN_S = 1.0
"""After something that a pod needs was not there."""
LOOK_AGAIN_S = 60.0
"""Where nothing is expected to happen by itself."""
UNKNOWN_EXIT_CODE = 137


class Surroundings(NamedTuple):
    """What a pod needs of the node that it is on."""

    node: str
    address: str
    scratch: Path  # as the node sees it
    logs: Path  # folder for the logs of all pods of the node
    environment: dict[str, str]  # of every container, below its own
    client: Client
    runtime: RuntimeOf
    images: Images
    memory_bytes: int  # of an emptyDir in memory without a limit
    token_oldest_s: float
    restart_base_s: float


class Pod:
    """One pod by its UID, until `over`."""

    def __init__(self, around: Surroundings, wanted: Object) -> None:
        self._around = around
        self.wanted: Object | None = wanted
        """As the API server has it; None once it has it no more."""
        self._pod = wanted
        self._knobs = Knobs()
        self.uid: str = wanted["metadata"]["uid"]
        self.name = f"{wanted['metadata']['namespace']}/{wanted['metadata']['name']}"
        self.over = False
        self.lives: dict[str, Life] = {}
        self._lost: dict[str, Life] = {}
        self._previous: dict[str, Life] = {}
        self.ready: dict[str, bool] = {}
        self._restarts = Restarts(around.restart_base_s)
        self._filled: volumes.Filled | None = None
        self._values = podspec.Values({})
        self._stop_sent = False
        self._waiting: Waiting = Waiting()
        self._told: Object | None = None
        self._started_at = stamp(time.time())

    @property
    def runs(self) -> bool:
        return any(life.phase is Phase.RUNNING for life in self.lives.values())

    async def step(self, knobs: Knobs) -> float:
        """Do what is next; after how many seconds to look again though nothing happened."""
        self._knobs = knobs
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
        if self._waiting != Waiting() or all(one.life for one in self._seen().values()):
            await self._tell(self._seen())
        return again_s

    # ------------------------------------------------------------ to run it

    async def _run(self) -> float:
        if not await self._prepare():
            return AGAIN_S
        now_s = time.time()
        renew_at_s = self._filled.renew_at_s if self._filled else 0.0
        waits = [renew_at_s - now_s] if renew_at_s else []
        for container in self._containers():
            life = self._life(container)
            if life is None:
                await self._start(container, 0)
            elif life.phase is Phase.EXITED and not podstatus.exit_is_final(self._policy, life):
                wait_s = self._restarts.wait_s(life, now_s)
                if wait_s <= 0:
                    self._previous[life.container] = life
                    self._restarts.restarted(life)
                    await self._start(container, life.attempt + 1)
                else:
                    waits.append(wait_s)
        return max(0.05, min([*waits, LOOK_AGAIN_S]))

    async def _prepare(self) -> bool:
        """Have its images, its volumes and all that they come from; False: not yet."""
        images = [one["image"] for one in self._containers()]
        unknown = [name for name in images if not self._around.images.find(name)]
        if unknown:
            reason = "ImagePullBackOff" if self._told else "ErrImagePull"
            self._waiting = Waiting(reason, f"image {unknown[0]} is not one that this node knows")
            return False
        if self._filled and not 0 < self._filled.renew_at_s <= time.time():
            return True
        try:
            await self._fill()
        except (BadReference, Refused) as error:
            self._waiting = Waiting("CreateContainerConfigError", str(error))
        except Conflict as error:  # the pod was replaced by another: its token is not for us
            self._waiting = Waiting("ContainerCreating", str(error))
        return self._filled is not None

    async def _fill(self) -> None:
        around, pod = self._around, self._pod
        here = Here(around.address)
        self._values = await volumes.values(around.client, pod)
        filled = await volumes.fill(
            around.client,
            pod,
            here,
            self._values,
            memory_bytes=around.memory_bytes,
            now_s=time.time(),
            oldest_s=around.token_oldest_s,
        )
        await around.runtime.order(orders.Prepare(uid=self.uid, volumes=filled.volumes))
        self._filled, self._waiting = filled, Waiting()

    async def _start(self, container: Object, attempt: int) -> None:
        around, name = self._around, container["name"]
        image = around.images.find(container["image"])
        try:
            own = podspec.environment(self._pod, container, Here(around.address), self._values)
        except BadReference as error:
            self._waiting = Waiting("CreateContainerConfigError", str(error))
            return
        environment = around.environment | {"HOSTNAME": self._pod["metadata"]["name"]} | own
        environment[RUN_MARK] = around.environment[RUN_MARK]
        await around.runtime.order(
            orders.Start(
                uid=self.uid,
                container=name,
                attempt=attempt,
                argv=podspec.argv(container, image.entrypoint if image else (), environment),
                environment=environment,
                log=str(self.log_path(name, attempt)),
                cwd=container.get("workingDir", ""),
                mounts=podspec.mounts(container, volumes.places(self._pod, around.scratch)),
                memory_bytes=podspec.memory_bytes(container),
            )
        )

    def log_path(self, container: str, attempt: int) -> Path:
        """Where the output of one life of a container is."""
        folder = self._around.logs / f"{self.name.replace('/', '_')}_{self.uid}"
        return folder / container / f"{attempt}.log"

    # ------------------------------------------------------------ to end it

    async def _end(self) -> float:
        """SIGTERM, grace and SIGKILL are the runtime's; then the last word, and the object goes."""
        meta = self._pod["metadata"]
        if self.runs:
            if not self._stop_sent:
                grace_s = float(meta.get("deletionGracePeriodSeconds", 0))
                await self._around.runtime.order(orders.Stop(uid=self.uid, grace_s=grace_s))
                self._stop_sent = True
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
        life = self._life(container)
        if life and self._knobs.lies:
            life = structs.replace(life, phase=Phase.RUNNING)
        previous = self._previous.get(container["name"])
        if life is None:
            return Seen(None, self._waiting, previous)
        if life.phase is Phase.RUNNING:
            ready = self.ready.get(container["name"], "readinessProbe" not in container)
            return Seen(life, None, previous, ready=ready, started=True)
        if ending or podstatus.exit_is_final(self._policy, life):
            return Seen(life, None, previous)
        return Seen(life, Waiting("CrashLoopBackOff", "restarting failed container"), previous)

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
        if status == self._told or self._knobs.drops_statuses:
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
