"""What is on the machine of a laboratory now: of each process of a node, and of all together."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.keeper import processes
from holdfast.keeper.state import NodeRecord
from holdfast.lab.chaos import target
from holdfast.lab.cluster import Lab

PROCESSES = ("executor", "daemon", "agent", "launcher")
HIDDEN = re.compile(r"\..+\.\d+\.\d+")
"""What is written beside a file until it is whole (`kit.files.beside`)."""


class Process(NamedTuple):
    """`memory_mb`: beside what it shares with others by files in memory, the slots among them."""

    files: int
    threads: int
    memory_mb: float


class Counted(NamedTuple):
    """`processes`: of the whole laboratory. `left`: names in nodes' memory that only a process that
    was killed leaves there. `slots_mb`: all that nodes have in memory.
    """

    of: dict[str, Process]
    processes: int
    left: int
    slots_mb: float


def count(lab: Lab) -> Counted:
    """Of several nodes the most of each."""
    nodes = target.nodes(lab)
    files = [path for node in nodes for path in _in_memory(node)]
    return Counted(
        of={name: _most(lab, nodes, name) for name in PROCESSES},
        processes=sum(1 for _ in processes.marked(lab.run_id)),
        left=sum(HIDDEN.fullmatch(path.name) is not None for path in files),
        slots_mb=sum(map(_size_of, files)) / 1e6,
    )


def least(counts: Sequence[Counted]) -> Counted:
    """Each number by itself."""
    return Counted(
        of={name: _each(min, [one.of[name] for one in counts]) for name in PROCESSES},
        processes=min(one.processes for one in counts),
        left=min(one.left for one in counts),
        slots_mb=min(one.slots_mb for one in counts),
    )


def _most(lab: Lab, nodes: list[NodeRecord], name: str) -> Process:
    return _each(max, [_of(target.process_pid(lab, node, name)) for node in nodes])


def _each(choose: Callable[..., Any], found: Sequence[Process]) -> Process:
    return Process(*map(choose, zip(*found, strict=True)))


def _of(pid: int) -> Process:
    status = Path(f"/proc/{pid}/status").read_text()
    values = {name: text.split()[0] for name, text in _lines(status) if text.split()}
    own_kib = int(values["RssAnon"]) + int(values["RssFile"])
    return Process(
        files=len(os.listdir(f"/proc/{pid}/fd")),
        threads=int(values["Threads"]),
        memory_mb=own_kib * 1024 / 1e6,
    )


def _lines(status: str) -> Iterator[tuple[str, str]]:
    for line in status.splitlines():
        name, _, text = line.partition(":")
        yield name, text


def _in_memory(node: NodeRecord) -> Iterator[Path]:
    return (path for path in Path(node.memory).rglob("*") if path.is_file())


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:  # written over just now
        return 0
