"""What a pod needs before its containers start: images, volumes, tokens, environment.

Used by `pod`, one for each. Prepared again when a token is due. Must not start anything.
"""

import time
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.keeper.processes import RUN_MARK
from holdfast.kubeapi.errors import Conflict
from holdfast.lab.emulator.kubelet import orders, podspec, volumes
from holdfast.lab.emulator.kubelet.images import Images
from holdfast.lab.emulator.kubelet.knobs import KnobsOf
from holdfast.lab.emulator.kubelet.link import NodeClient
from holdfast.lab.emulator.kubelet.podspec import BadReference, Here
from holdfast.lab.emulator.kubelet.podstatus import Waiting
from holdfast.lab.emulator.kubelet.runtimes import Refused, RuntimeOf

Object = dict[str, Any]
LAST_WORDS_BYTES, LAST_WORDS_LINES = 2_048, 80


class Surroundings(NamedTuple):
    """What a pod needs of the node that it is on."""

    address: str
    scratch: Path  # as the node sees it
    logs: Path  # folder for the logs of all pods of the node
    environment: dict[str, str]  # of every container, below its own
    client: NodeClient
    runtime: RuntimeOf
    knobs: KnobsOf
    images: Images
    memory_bytes: int  # of an emptyDir in memory without a limit
    node_bytes: int  # memory that the node says it has
    token_oldest_s: float
    restart_base_s: float


class Preparation:
    """How far it is: `waiting` says what is missing, `renew_at_s` when a token is due, or 0."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._values = podspec.Values({})
        self._done = False
        self.waiting = Waiting()
        self.renew_at_s = 0.0

    async def prepare(self, pod: Object) -> bool:
        """Have all of it; False: not yet. Raises `ApiError` or `OSError` where nobody answers."""
        images = [one["image"] for one in pod["spec"]["containers"]]
        unknown = [name for name in images if not self._around.images.find(name)]
        if unknown:
            again = self.waiting.reason in ("ErrImagePull", "ImagePullBackOff")
            reason = "ImagePullBackOff" if again else "ErrImagePull"
            self.waiting = Waiting(reason, f"image {unknown[0]} is not one that this node knows")
            return False
        if self._done and not 0 < self.renew_at_s <= time.time():
            return True
        try:
            await self._fill(pod)
        except (BadReference, Refused) as error:
            self.waiting = Waiting("CreateContainerConfigError", str(error))
        except Conflict as error:  # another pod has its name: the token would be that one's
            self.waiting = Waiting("ContainerCreating", str(error))
        return self._done

    def order(self, pod: Object, container: Object, attempt: int) -> orders.Start:
        """What starts one life of a container. Raises `BadReference`."""
        around, meta = self._around, pod["metadata"]
        image = around.images.find(container["image"])
        own = podspec.environment(pod, container, Here(around.address), self._values)
        environment = around.environment | {"HOSTNAME": meta["name"]} | own
        environment[RUN_MARK] = around.environment[RUN_MARK]
        return orders.Start(
            uid=meta["uid"],
            container=container["name"],
            attempt=attempt,
            argv=podspec.argv(container, image.entrypoint if image else (), environment),
            environment=environment,
            log=str(log_path(around.logs, pod, container["name"], attempt)),
            cwd=container.get("workingDir", ""),
            mounts=podspec.mounts(container, volumes.places(pod, around.scratch)),
            memory_bytes=podspec.memory_bytes(container),
            oom_score_adj=podspec.oom_score_adj(pod, container, around.node_bytes),
        )

    async def _fill(self, pod: Object) -> None:
        around = self._around
        self._values = await volumes.values(around.client, pod)
        filled = await volumes.fill(
            around.client,
            pod,
            Here(around.address),
            self._values,
            memory_bytes=around.memory_bytes,
            now_s=time.time(),
            oldest_s=around.token_oldest_s,
        )
        prepare = orders.Prepare(uid=pod["metadata"]["uid"], volumes=filled.volumes)
        await around.runtime.order(prepare)
        self.renew_at_s, self._done, self.waiting = filled.renew_at_s, True, Waiting()


def log_path(logs: Path, pod: Object, container: str, attempt: int) -> Path:
    """Where the output of one life of a container is."""
    meta = pod["metadata"]
    folder = logs / f"{meta['namespace']}_{meta['name']}_{meta['uid']}"
    return folder / container / f"{attempt}.log"


def last_words(log: str) -> str:
    """The end of a log as a kubelet cuts it: at most 2,048 bytes of at most 80 lines."""
    try:
        content = Path(log).read_bytes()
    except FileNotFoundError:
        return ""
    lines = content[-LAST_WORDS_BYTES:].splitlines(keepends=True)
    return b"".join(lines[-LAST_WORDS_LINES:]).decode(errors="replace")
