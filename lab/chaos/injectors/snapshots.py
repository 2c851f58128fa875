"""Faults 24 and 25 in a node's memory: a bit of the newest snapshot is another one, or what writes
it to the store dies half way.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from msgspec.structs import replace

from holdfast.checkpoint.slot_folder import SlotFolder
from holdfast.checkpoint.slots import Slot
from holdfast.checkpoint.words import Seal
from holdfast.keeper import processes
from holdfast.keeper.state import NodeRecord
from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector, checkpoint, rank
from holdfast.lab.cluster import Lab
from holdfast.lab.emulator.inside import path_in
from holdfast.protocol.paths import NodePaths

WITHIN_S = 30.0
Damage = Callable[[Slot, Seal, Random], Path]
"""Where it flips a bit: the file, of which it changed one."""


def damaged(damage: Damage) -> Injector:
    """Flip a bit of a rank's newest snapshot, and kill the rank."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        victim, pid, node = _drawn(lab, job, rng)
        with _stopped(pid):
            slot, seal = _newest(node, job, victim)
            return _killed(pid, victim, node, damage(slot, seal, rng), seal)

    return do


def damaged_unseen(lab: Lab, job: str, rng: Random) -> Done:
    """The same before the node's agent has looked at it: it is stopped, until the rank is dead."""
    victim, pid, node = _drawn(lab, job, rng)
    with _stopped(target.process_pid(lab, node, "agent")):
        _, before = _newest(node, job, victim)
        _newest(node, job, victim, after=before.step)
        with _stopped(pid):
            slot, seal = _newest(node, job, victim, after=before.step)
            return _killed(pid, victim, node, in_data(slot, seal, rng), seal)


def agent_killed_half_way(lab: Lab, job: str, rng: Random) -> Done:
    """SIGKILL to the agent of a node while a checkpoint has a shard and no manifest, then to a rank
    of that node.
    """
    folder = checkpoint.under_way(lab, job)
    victim, _, node = _drawn(lab, job, rng)
    os.kill(target.process_pid(lab, node, "agent"), signal.SIGKILL)
    done = rank.signalled(signal.SIGKILL, victim)(lab, job, rng)
    said = f"SIGKILL to the agent of {node.name} between two shards of {folder.name}; {done.said}"
    return replace(done, said=said)


def in_data(slot: Slot, seal: Seal, rng: Random) -> Path:
    return _flip(slot.data, rng.randrange(seal.head_bytes, seal.used_bytes), rng)


def in_head(slot: Slot, seal: Seal, rng: Random) -> Path:
    return _flip(slot.data, rng.randrange(8, seal.head_bytes), rng)


def in_seal(slot: Slot, _seal: Seal, rng: Random) -> Path:
    return _flip_anywhere(slot.data.with_suffix(".seal"), rng)


def in_sum(slot: Slot, _seal: Seal, rng: Random) -> Path:
    return _flip_anywhere(slot.data.with_suffix(".sum"), rng)


def _flip_anywhere(file: Path, rng: Random) -> Path:
    return _flip(file, rng.randrange(file.stat().st_size), rng)


def _flip(file: Path, at: int, rng: Random) -> Path:
    with file.open("r+b") as opened:
        opened.seek(at)
        (old,) = opened.read(1)
        opened.seek(at)
        opened.write(bytes([old ^ 1 << rng.randrange(8)]))
    return file


def _drawn(lab: Lab, job: str, rng: Random) -> tuple[int, int, NodeRecord]:
    pids = target.wait_for(lambda: target.rank_pids(lab, job), f"a rank of {job}", WITHIN_S)
    victim = rng.choice(sorted(pids))
    return victim, pids[victim], target.node_of(lab, pids[victim])


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    """It stands still meanwhile, if it is there."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        processes.kill(pid, signal.SIGCONT)


def _newest(node: NodeRecord, job: str, victim: int, *, after: int = -1) -> tuple[Slot, Seal]:
    """The newest sealed slot, once it is of a step after this one."""
    paths = NodePaths(scratch=Path(node.folder), memory=path_in(node, node.memory))
    folder = SlotFolder(paths.slots(job, victim))

    def found() -> tuple[Slot, Seal] | None:
        sealed = folder.sealed()
        newest = next(iter(sealed), None)
        return newest if newest and newest[1].step > after else None

    return target.wait_for(found, f"a snapshot of rank {victim}", WITHIN_S)


def _killed(pid: int, victim: int, node: NodeRecord, file: Path, seal: Seal) -> Done:
    at_s = time.time()
    os.kill(pid, signal.SIGKILL)
    said = f"a bit flipped in {file.name}, step {seal.step} of rank {victim} on {node.name}"
    return Done(said=f"{said}, and SIGKILL to it", node=node.name, rank=victim, at_s=at_s)
