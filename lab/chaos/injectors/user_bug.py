"""Faults 4, 7 and 8: a bug of the user's script, armed from outside by a file that it looks for.

The scripts are in `lab/chaos/scripts`; that they have a bug is theirs to know, and nobody else's.
"""

from pathlib import Path
from random import Random

from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector
from holdfast.lab.cluster import Lab


def armed(bug: str, *, again: bool = False) -> Injector:
    """Let one rank run into `bug`: "spin", "pipe" or "raise"; `again`: at each attempt anew."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        pids = target.wait_for(lambda: target.rank_pids(lab, job), f"a rank of {job}", 10.0)
        rank = rng.choice(sorted(pids))
        node = target.node_of(lab, pids[rank]).name
        (folder_of(lab, job) / f"{bug}.rank{rank}{'.always' if again else ''}").touch()
        return Done(said=f"rank {rank} on {node} runs into its bug: {bug}", node=node, rank=rank)

    return do


def folder_of(lab: Lab, job: str) -> Path:
    """Where the job's script looks for such files (CHAOS_BUGS); it is made where it is not."""
    folder = lab.run.root / "bugs" / job
    folder.mkdir(parents=True, exist_ok=True)
    return folder
