"""Faults 4, 6, 7, 8, 24: a bug of the user's script, armed from outside by a file it looks for.

The scripts are in `lab/chaos/scripts`; that they have a bug is theirs to know, and nobody else's.
"""

import signal
from pathlib import Path
from random import Random

from msgspec.structs import replace

from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector, checkpoint, rank
from holdfast.lab.cluster import Lab

WITHIN_S = 60.0


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


def folder_of(lab: Lab, job: str) -> Path:
    """Where the job's script looks for such files (CHAOS_BUGS); it is made where it is not."""
    folder = lab.run.root / "bugs" / job
    folder.mkdir(parents=True, exist_ok=True)
    return folder
