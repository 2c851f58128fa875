"""Faults 4 to 9, 12, 24, 26, 28 and 30: a bug of the user's script, armed from outside
by a file it looks for.

The scripts are in `lab/chaos/scripts`; that they have a bug is theirs to know, and nobody else's.
"""

import os
import signal
import time
from collections.abc import Collection
from pathlib import Path
from random import Random

from msgspec.structs import replace

from holdfast.kit import procstat
from holdfast.kit.files import write_atomic
from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector, checkpoint, rank
from holdfast.lab.cluster import Lab

WITHIN_S = 60.0
SOON = 20
"""Steps that a driver may be behind its job, or two seconds here, and not yet the end of it."""


def armed(bug: str, *, again: str = "") -> Injector:
    """Let one rank run into `bug`, one of those of the script; `again`: "always", at each step, or
    "here", whenever it comes to the same step.
    """

    def do(lab: Lab, job: str, rng: Random) -> Done:
        pids = target.wait_for(lambda: target.rank_pids(lab, job), f"a rank of {job}", 10.0)
        rank = rng.choice(sorted(pids))
        node = target.node_of(lab, pids[rank]).name
        (folder_of(lab, job) / f"{bug}.rank{rank}{again and f'.{again}'}").touch()
        return Done(said=f"rank {rank} on {node} runs into its bug: {bug}", node=node, rank=rank)

    return do


def without_victim(bug: str, *, again: str) -> Injector:
    """Of which nobody can tell which rank it is."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        done = armed(bug, again=again)(lab, job, rng)
        return replace(done, node=None, rank=None)

    return do


def armed_on_all(bug: str, *, every: int = 0, but: Collection[int] = ()) -> Injector:
    """Let all ranks, `but` for some, run into `bug`, at the same step: one soon, each time they
    come to it, or at each multiple of `every`. Returns once all have met it."""

    def do(lab: Lab, job: str, _rng: Random) -> Done:
        pids = target.wait_for(lambda: target.rank_pids(lab, job), f"a rank of {job}", 10.0)
        at = lab.job(job)["step"] + SOON
        again = ("always", every) if every else ("here", at)
        ranks = sorted({*pids}.difference(but))
        at_s = _armed(lab, job, bug, ranks, *again)
        when = f"at every {every}th step" if every else f"at step {at}"
        hosts = tuple(node.name for node in target.hosts_of(lab, job))
        said = f"ranks {', '.join(map(str, ranks))}, {when}: {bug}"
        return Done(said=said, also=hosts, at_s=at_s)

    return do


def armed_on_first(bug: str, *, every: int) -> Injector:
    """Let rank 0, which does such things in most scripts, run into `bug` at such steps. Returns
    once it has met it."""

    def do(lab: Lab, job: str, _rng: Random) -> Done:
        node = target.node_of(lab, target.rank_pid(lab, job, 0)).name
        at_s = _armed(lab, job, bug, [0], "always", every)
        said = f"rank 0 on {node}, at every {every}th step: {bug}"
        return Done(said=said, node=node, rank=0, at_s=at_s)

    return do


def _armed(lab: Lab, job: str, bug: str, ranks: list[int], again: str, text: object) -> float:
    """When all these ranks had met it. Raises `NotThere` where one never did."""
    arms = [folder_of(lab, job) / f"{bug}.rank{each}" for each in ranks]
    for arm in arms:
        write_atomic(Path(f"{arm}.{again}"), str(text).encode())
    met = [Path(f"{arm}.met") for arm in arms]
    target.wait_for(lambda: all(each.exists() for each in met), f"{bug} met by {ranks}", WITHIN_S)
    return time.time()


def in_long_steps(other: Injector) -> Injector:
    """All ranks take their time while another fault is done."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        ranks = sorted(target.wait_for(lambda: target.rank_pids(lab, job), f"ranks of {job}", 10.0))
        _armed(lab, job, "breathe", ranks, "always", 1)
        try:
            return other(lab, job, rng)
        finally:
            for each in folder_of(lab, job).glob("breathe.*.always"):
                each.unlink()

    return do


def loader_stopped(lab: Lab, job: str, rng: Random) -> Done:
    """A rank gets a child that loads its data; then SIGSTOP to that child alone. The child of the
    next attempt is well.
    """
    done = armed("load", again="always")(lab, job, rng)
    assert done.rank is not None, "one was drawn"
    pid = target.rank_pid(lab, job, done.rank)
    child = target.wait_for(lambda: target.child_of(pid, "cat"), "a data loader", WITHIN_S)
    at_s = time.time()
    os.kill(child, signal.SIGSTOP)
    said = f"SIGSTOP to the data loader of rank {done.rank} on {done.node}"
    return replace(done, said=said, at_s=at_s)


def zombies_left(lab: Lab, job: str, rng: Random) -> Done:
    """A rank leaves children that have ended and that nobody reaps; then SIGKILL to it."""
    done = armed("zombies")(lab, job, rng)
    assert done.rank is not None, "one was drawn"
    pid = target.rank_pid(lab, job, done.rank)
    target.wait_for(lambda: _has_zombies(pid), "children that nobody reaps", WITHIN_S)
    at_s = time.time()
    os.kill(pid, signal.SIGKILL)
    said = f"rank {done.rank} on {done.node} leaves zombies, and dies of SIGKILL"
    return replace(done, said=said, at_s=at_s)


def _has_zombies(pid: int) -> bool:
    seen = (procstat.stat(child) for child in procstat.children(pid))
    return any(each is not None and each.state == "Z" for each in seen)


def poisoned(lab: Lab, job: str, rng: Random) -> Done:
    """From the newest step on, what is saved ends whoever starts from it; then kill a rank.

    Both in memory and in the store there is such a point then, and in the store an older one.
    """
    whole = target.wait_for(
        lambda: checkpoint.whole_checkpoints(lab, job), f"a checkpoint of {job}", WITHIN_S
    )
    first = lab.job(job)["step"]
    (folder_of(lab, job) / "poison").write_text(str(first))

    def poisoned_too() -> bool:
        """What was under way may be older than the poison, and old ones are removed meanwhile."""
        return len(set(checkpoint.whole_checkpoints(lab, job)).difference(whole)) > 1

    target.wait_for(poisoned_too, f"a checkpoint of {job} after step {first}", WITHIN_S)
    done = rank.signalled(signal.SIGKILL)(lab, job, rng)
    said = f"what is saved from step {first} on is poisoned; {done.said}"
    return replace(done, said=said)


def updated(bug: str, *, every: int) -> Injector:
    """Give the job a version in which rank 0 runs into `bug` at each multiple of so many steps."""

    def do(lab: Lab, job: str, _rng: Random) -> Done:
        folder = folder_of(lab, f"{job}.newer")
        write_atomic(folder / f"{bug}.rank0.always", str(every).encode())
        node = target.node_of(lab, target.rank_pid(lab, job, 0)).name
        at_s = time.time()
        lab.update(job, env={"CHAOS_BUGS": str(folder)})
        said = f"{job} gets a version whose rank 0, at every {every}th step: {bug}"
        return Done(said=said, node=node, rank=0, at_s=at_s)

    return do


def folder_of(lab: Lab, job: str) -> Path:
    """Where the job's script looks for such files (CHAOS_BUGS); it is made where it is not."""
    folder = lab.run.root / "bugs" / job
    folder.mkdir(parents=True, exist_ok=True)
    return folder
