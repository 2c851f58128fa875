"""The environment of a rank: torchrun's variables, and ours under HOLDFAST_. Pure.

Built by the executor for each rank; the names are read by `telemetry` and `checkpoint` inside the
rank. Must not read the environment of this process.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from holdfast.protocol import nodeenv
from holdfast.protocol.messages import Desired, Seat, Task
from holdfast.protocol.paths import NodePaths, RunPaths

JOB = "HOLDFAST_JOB"
EPOCH = "HOLDFAST_EPOCH"
ATTEMPT = "HOLDFAST_ATTEMPT"
BECAUSE = "HOLDFAST_BECAUSE"
"""Of an attempt after the first: the fault that it is for, in a sentence; or empty."""
NODE = nodeenv.NODE
BECAUSE_CHARACTERS = 500
RING = "HOLDFAST_RING"
"""Ring file that the rank writes."""
SLOTS = "HOLDFAST_SLOTS"
"""Folder of this rank's memory slots."""
STORE_URL = "HOLDFAST_STORE_URL"
RENDEZVOUS = "HOLDFAST_RENDEZVOUS"
"""URL of the Redis where ranks meet; empty: at MASTER_ADDR and MASTER_PORT, as torch does."""
LIFE = "HOLDFAST_LIFE"
"""An id that no other submission of a job has, of this or another name."""
BEGIN_FROM = "HOLDFAST_BEGIN_FROM"
"""What an earlier job left, or empty."""
MEMORY_INTERVAL = "HOLDFAST_MEMORY_INTERVAL"
"""Steps between snapshots to memory; 0 takes none."""
STORE_INTERVAL = "HOLDFAST_STORE_INTERVAL"
"""Steps between checkpoints to the store; 0 writes none."""
PEER_INTERVAL = "HOLDFAST_PEER_INTERVAL"
"""Steps between copies in another node's memory; 0 makes none."""
RESTORE = "HOLDFAST_RESTORE"
"""JSON of `messages.Restore`, or empty."""
TOPOLOGY = "HOLDFAST_TOPOLOGY"
"""JSON of `topology.Topology`."""
RANK_DIR = "HOLDFAST_RANK_DIR"
"""Folder of this rank and attempt: logs, error file, what the rank leaves."""
SOCKETS = "HOLDFAST_SOCKETS"
"""Folder for the sockets of the rank's multiprocessing; absent where there is none."""
REENTRY = "HOLDFAST_REENTRY"
"""Name of the abstract socket by which a rank is told to begin anew in its own process."""
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"

NODE_ONLY = nodeenv.NAMES - {NODE}
"""Variables of a node's own processes: no rank's business, the token's place least of all."""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank has to know of the node where it runs. `ifname` empty: the default interface."""

    name: str
    paths: NodePaths
    ifname: str = ""


def base_environment(inherited: Mapping[str, str], task: Task) -> dict[str, str]:
    """What all ranks of `task` on a node share; also the launcher's own, which they fork from.

    A node's own environment wins over defaults of the job, and the job's own `env` over both.
    Output is unbuffered and each rank gets one OpenMP thread where several share a node, as
    torchrun does.
    """
    kept = {name: value for name, value in inherited.items() if name not in NODE_ONLY}
    kept.setdefault("PYTHONUNBUFFERED", "1")
    if task.ranks_per_node > 1:
        kept.setdefault("OMP_NUM_THREADS", "1")
    return task.default_env | kept | task.env


def rank_environment(
    desired: Desired, seat: Seat, node: NodeFacts, *, agent_store: bool
) -> dict[str, str]:
    """The variables that `seat` has and other ranks do not, or that change with the epoch.

    `agent_store` is False where rank 0 has to serve the rendezvous itself, since the node could
    not. Raises `ValueError` where `desired` has no task, job or rendezvous.
    """
    task, job, meeting = desired.task, desired.job, desired.rendezvous
    if task is None or job is None or meeting is None:
        raise ValueError("desired: seats need a job, a task and a rendezvous. Send all three.")
    folder = RunPaths(Path(task.log_root)).rank(job, desired.attempt, seat.rank)
    return {
        **_places(desired, seat),
        "MASTER_ADDR": meeting.address,
        "MASTER_PORT": str(meeting.port),
        "TORCHELASTIC_RESTART_COUNT": str(max(0, desired.attempt - 1)),
        "TORCHELASTIC_MAX_RESTARTS": str(task.max_restarts),
        "TORCHELASTIC_RUN_ID": job,
        "TORCHELASTIC_USE_AGENT_STORE": str(agent_store),
        ERROR_FILE: str(folder / "error.json"),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": task.env.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        **_interfaces(node.ifname, task),
        JOB: job,
        EPOCH: str(desired.epoch),
        ATTEMPT: str(desired.attempt),
        BECAUSE: desired.because.replace("\0", "")[:BECAUSE_CHARACTERS],
        NODE: node.name,
        RING: str(node.paths.ring(job, desired.epoch, seat.rank)),
        SLOTS: str(node.paths.slots(job, seat.rank)),
        STORE_URL: task.store_url,
        RENDEZVOUS: task.rendezvous,
        LIFE: task.store_url.rpartition("/")[2],
        BEGIN_FROM: task.begin_from,
        MEMORY_INTERVAL: str(task.memory_interval_steps),
        STORE_INTERVAL: str(task.store_interval_steps),
        PEER_INTERVAL: str(task.peer_interval_steps),
        RESTORE: _json(desired.restore) if desired.restore else "",
        TOPOLOGY: _json(task.topology),
        RANK_DIR: str(folder),
    }


def _places(desired: Desired, seat: Seat) -> dict[str, str]:
    return {
        "RANK": str(seat.rank),
        "LOCAL_RANK": str(seat.local_rank),
        "WORLD_SIZE": str(desired.world_size),
        "LOCAL_WORLD_SIZE": str(len(desired.seats)),
        "GROUP_RANK": str(desired.place),
        "GROUP_WORLD_SIZE": str(desired.places),
        "ROLE_RANK": str(seat.rank),
        "ROLE_WORLD_SIZE": str(desired.world_size),
        "ROLE_NAME": "default",
    }


def _interfaces(ifname: str, task: Task) -> dict[str, str]:
    """The node's, where the job does not name its own. Without them gloo takes 127.0.0.1 inside a
    namespace and fails."""
    names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME") if ifname else ()
    return {name: ifname for name in names if name not in task.default_env | task.env}


def _json(value: msgspec.Struct) -> str:
    return msgspec.json.encode(value).decode()
