"""What the kubelet says to the runtime of a node, and what that answers: JSON, a line each. Pure.

Used by `runtime` (in the node) and `runtimes` (in the kubelet). Every order may be repeated: a pod
is named by its UID, a life of one of its containers by (UID, container, attempt).
"""

from enum import StrEnum
from pathlib import Path

import msgspec


class Phase(StrEnum):
    """Where one life of a container is."""

    RUNNING = "running"
    EXITED = "exited"


class Life(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One life of a container. Times are seconds since 1970, exit codes as a shell gives them."""

    uid: str
    container: str
    attempt: int
    phase: Phase
    pid: int = 0  # in the node's PID namespace; of the container's init
    started_at_s: float = 0.0
    finished_at_s: float = 0.0
    exit_code: int = 0
    signal: int = 0
    reason: str = ""  # Completed, Error, OOMKilled, StartError
    message: str = ""


class Volume(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A folder of a pod. `memory_bytes` makes it a tmpfs of that size; `files` are put into it."""

    name: str
    memory_bytes: int = 0
    files: dict[str, bytes] = {}
    mode: int = 0o644  # of the files


class Mount(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A folder or file of the node as a container sees it."""

    source: str
    target: str
    read_only: bool = False


class Prepare(msgspec.Struct, tag="prepare", kw_only=True):
    """Have these volumes, with these files. Others of the pod stay as they are."""

    uid: str
    volumes: list[Volume]


class Start(msgspec.Struct, tag="start", kw_only=True, omit_defaults=True):
    """Start a container unless this life of it was started before."""

    uid: str
    container: str
    attempt: int
    argv: list[str]
    environment: dict[str, str]
    log: str  # path, appended to
    cwd: str = ""
    mounts: list[Mount] = []
    memory_bytes: int = 0  # limit, 0 for none
    oom_score_adj: int = 0  # of its first process, and what that starts


class Stop(msgspec.Struct, tag="stop", kw_only=True, omit_defaults=True):
    """SIGTERM now and SIGKILL after `grace_s`, to one container or ("") to all of the pod."""

    uid: str
    grace_s: float
    container: str = ""


class Execute(msgspec.Struct, tag="execute", kw_only=True):
    """Run a command inside a container and wait for its end; the answer is `Done`."""

    uid: str
    container: str
    argv: list[str]
    timeout_s: float


class Forget(msgspec.Struct, tag="forget", kw_only=True):
    """Kill what the pod still has, remove its volumes, and know nothing of it any more."""

    uid: str


class Subscribe(msgspec.Struct, tag="watch"):
    """Answered by a `Snapshot` now and one after each change, until the connection ends."""


Order = Prepare | Start | Stop | Execute | Forget | Subscribe


class Done(msgspec.Struct, tag="done", omit_defaults=True):
    """The answer to every order but `Subscribe`: what went wrong, "" for nothing."""

    error: str = ""


class Snapshot(msgspec.Struct, tag="snapshot"):
    """The last life of every container that the runtime knows of, and the pods with volumes."""

    lives: list[Life]
    prepared: list[str]
    degraded: str = ""  # what it cannot do here, and why


def socket_path(folder: Path) -> Path:
    """Where the runtime of the node with this folder listens."""
    return folder / "runtime.sock"


def volume_path(scratch: Path, uid: str, volume: str) -> Path:
    """A volume of a pod, as the node sees it."""
    return scratch / "pods" / uid / volume
