"""Fault 44: a node that was given up comes back, with all that ran on it as it was.

Its kubelet is frozen, so that nobody there hears that its pod is not wanted: what is left over goes
on, and only the fence keeps it out. Of `returned` that is the store's, of `ranks_returned` that of
who meets whom.
"""

import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from holdfast.checkpoint import layout
from holdfast.keeper import processes
from holdfast.kit.files import write_atomic
from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, checkpoint, driver, on_kubernetes, user_bug
from holdfast.lab.emulator.kubelet.knobs import Knobs
from holdfast.lab.on_kubernetes import KubernetesLab

WITHIN_S = 60.0
MET = re.compile(r"^rendezvous (.+)$", re.MULTILINE)
LAST_TRY = "old rendezvous"
SAVES = 20
"""So many are tried to be met in the middle."""


@on_kubernetes
def returned(lab: KubernetesLab, job: str, _rng: Random) -> Done:
    """The node of rank 0 is cut off in the middle of a save, which it ends once others go on."""
    node, before = target.hosts_of(lab, job)[0], lab.job(job)["attempt"]
    agent = target.process_pid(lab, node, "agent")
    ranks = target.rank_pids(lab, job)
    others = [rank for rank, pid in ranks.items() if target.node_of(lab, pid).name != node.name]
    save = _stopped_in_a_save(lab, job, agent, others)
    lab.joined.turn(node.name, Knobs(frozen=True))
    done = Done(
        said=f"{node.name} ends {save.name} after its job went on elsewhere, and comes back",
        node=node.name,
    )
    lab.joined.unplug(node.name)
    target.wait_for(lambda: _is_fenced(save), "a fence of a later attempt", WITHIN_S)
    os.kill(agent, signal.SIGCONT)
    target.wait_for(lambda: _has_parts(save, [*ranks]), f"the rest of {save.name}", WITHIN_S)
    driver.wait_for_recovery(lab, job, before)
    lab.joined.plug(node.name)
    return done


@on_kubernetes
def ranks_returned(lab: KubernetesLab, job: str, _rng: Random) -> Done:
    """Ranks stand still where it is their turn to send, their node is given up, then they go on.

    Their executor is stopped for longer, so that nobody but their peers tells them. They are told
    where others meet now, and try to meet them again.
    """
    node, before = target.hosts_of(lab, job)[-1], lab.job(job)
    done = Done(said=f"{node.name} is given up, and its ranks cling to their job", node=node.name)
    pids = target.rank_pids(lab, job).items()
    ranks = [rank for rank, pid in pids if target.node_of(lab, pid).name == node.name]
    logs = [_log(lab, before, rank) for rank in ranks]
    lab.joined.turn(node.name, Knobs(frozen=True))
    with _stopped(target.process_pid(lab, node, "executor")):
        with _standing(user_bug.folder_of(lab, job), before["attempt"], ranks):
            lab.joined.unplug(node.name)
            driver.wait_for_recovery(lab, job, before["attempt"])
            _tell_where_others_meet(lab, job, before["attempt"])
            lab.joined.plug(node.name)
        target.wait_for(lambda: any(map(_has_clung, logs)), "the end of all tries", WITHIN_S)
    return done


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    """SIGSTOP to it, and SIGCONT at the end where it is still there."""
    try:
        os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        processes.kill(pid, signal.SIGCONT)


@contextmanager
def _standing(folder: Path, attempt: int, ranks: Sequence[int]) -> Iterator[None]:
    """Ranks of one node do not go on (see `scripts.clinging`): none has begun a step before that of
    the others, so whoever does not stand waits for one that does, and for nobody elsewhere.
    """
    files = [folder / f"stand-still.attempt{attempt}.rank{rank}" for rank in ranks]
    places = [folder / f"at.attempt{attempt}.rank{rank}" for rank in ranks]

    def stand() -> bool:
        at = [place.read_text().split() for place in places]
        return len({step for step, *_ in at}) == 1 and any(stands for _, *stands in at)

    try:
        for file in files:
            file.touch()
        target.wait_for(stand, f"ranks that stand still, of {len(ranks)}", WITHIN_S)
        yield
    finally:
        for file in files:
            file.unlink(missing_ok=True)


def _tell_where_others_meet(lab: KubernetesLab, job: str, attempt: int) -> None:
    """Tell ranks of this attempt what the newer ones have said of it (see `scripts.clinging`)."""
    log = _log(lab, lab.job(job), 0)
    met = target.wait_for(lambda: MET.search(log.read_text()), "where others meet", WITHIN_S)
    folder = user_bug.folder_of(lab, job)
    write_atomic(folder / f"newer-than-attempt-{attempt}", met[1].encode())


def _log(lab: KubernetesLab, seen: Mapping[str, Any], rank: int) -> Path:
    """What this rank prints, in the attempt that the job was seen in."""
    return lab.run.rank(seen["name"], seen["attempt"], rank) / "stdout.log"


def _has_clung(log: Path) -> bool:
    return LAST_TRY in log.read_text()


def _stopped_in_a_save(lab: KubernetesLab, job: str, agent: int, others: list[int]) -> Path:
    """The folder of a save that waits for this agent alone, which is stopped (SIGSTOP)."""
    for _ in range(SAVES):
        save = checkpoint.under_way(lab, job)
        os.kill(agent, signal.SIGSTOP)
        stopped = False
        try:
            target.wait_for(lambda: _has_parts(save, others), f"parts in {save.name}", WITHIN_S)  # noqa: B023
            stopped = not (save / layout.MANIFEST).exists()
        finally:
            if not stopped:
                os.kill(agent, signal.SIGCONT)  # it was faster
        if stopped:
            return save
    raise target.NotThere(f"a save that is not over when the agent is stopped, of {SAVES}")


def _has_parts(save: Path, ranks: list[int]) -> bool:
    """What these ranks have to write of it is there, or all of it is done."""
    parts = [save / layout.part_name(rank) for rank in ranks]
    return (save / layout.MANIFEST).exists() or all(part.exists() for part in parts)


def _is_fenced(save: Path) -> bool:
    """By the store a later attempt has begun than the one that makes this save."""
    place = layout.parse_folder(save.name)
    fences = [layout.parse_fence(entry.name) for entry in save.parent.iterdir()]
    return place is not None and any(fence > place[1] for fence in fences if fence is not None)
