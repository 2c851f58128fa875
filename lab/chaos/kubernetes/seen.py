"""What each of those who saw a scenario wrote down, side by side.

Made by `stage`, read by `witnesses`. Must not be asked of the driver: its journal is here as what
it says it did, to be held against what others saw it do.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from holdfast.checkpoint import layout
from holdfast.driver.ports import Entry
from holdfast.lab.chaos.injectors import Done
from holdfast.lab.kubernetes.proxy import Answered
from holdfast.lab.replaying import Counts
from holdfast.protocol import forks
from holdfast.protocol.forks import Fork

Object = Mapping[str, Any]


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Of one scenario, once its job is over."""

    done: Done
    job: Object
    """The TrainingJob; empty where there is none any more."""
    nodes: Mapping[str, Object]
    """Node objects by name."""
    pods: Sequence[Object]
    """Of the namespace of the job, looked up after all else."""
    audited: Sequence[Object]
    """What the API server's audit log has of it, oldest first."""
    entries: Sequence[Entry]
    """The driver's journal."""
    api_starts: Sequence[tuple[float, float]]
    """When the API server was started and when it was ready, each time the scenario started it; by
    the machine's wall clock, which is also the audit log's."""
    settled: int
    """Number of its newest entry when the audit log was read."""
    lease: Object
    """By which drivers that share a journal say who leads; empty where none was made."""
    forked: Sequence[Fork]
    """What executors wrote down of ranks that they started."""
    stored: Sequence[tuple[int, int]]
    """Step and epoch of each whole checkpoint in the store."""
    driver_starts: int
    driver_said: Sequence[str]
    """Lines of the log of the first driver, of all its lives."""
    printed: Mapping[str, Sequence[str]]
    """By node, lines of the logs of its pods, as far as its kubelet keeps them."""
    told: Sequence[str]
    """Lines that ranks wrote to their standard output, of all attempts."""
    repeated: Counts
    """What the relay between nodes and driver says it repeated, where there is one."""
    answered: Answered
    """What the proxy between driver and API server says of its answers, where there is one."""
    drivers_up: Sequence[str]
    """Names of the drivers whose process is there."""


def stored(store: Path) -> list[tuple[int, int]]:
    """Step and epoch of the checkpoints there that have a manifest."""
    found = [layout.parse_folder(one.parent.name) for one in store.glob(f"*/*/{layout.MANIFEST}")]
    return sorted(filter(None, found))


def forked(job: Path) -> list[Fork]:
    """What executors wrote down in the folder of a job, for all attempts and ranks."""
    lines = [
        line
        for file in sorted(job.glob(f"attempt_*/rank_*/{forks.FILE}"))
        for line in file.read_bytes().splitlines()
    ]
    return [msgspec.json.decode(line, type=Fork) for line in lines]


def told(job: Path) -> list[str]:
    """What ranks of the job with this folder wrote to their standard output."""
    files = sorted(job.glob("attempt_*/rank_*/stdout.log"))
    return [line for file in files for line in lines(file)]


def printed(node: Path) -> list[str]:
    """Lines that containers on the node with this folder wrote, each container's in its order."""
    files = sorted(node.glob("pods/*/*/*.log"))
    return [line for file in files for line in lines(file)]


def lines(file: Path) -> list[str]:
    """Of a log; none where there is no such file."""
    return file.read_text(errors="replace").splitlines() if file.exists() else []


def at_s(told: str) -> float:
    """Unix time of what the audit log or the journal says (RFC 3339)."""
    return datetime.fromisoformat(told).timestamp()
