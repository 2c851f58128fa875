"""A node lost on an emulated cluster: two nodes of two ranks, one standby.

Called by `benchmark`.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from holdfast.bench.figures import Try
from holdfast.bench.jobs import NODES, job_of
from holdfast.bench.restart.marks import Marks
from holdfast.bench.restart.systems import SCRIPT
from holdfast.bench.restart.turns import LAUNCH_WITHIN_S, NotStarted, back_again, first_steps
from holdfast.lab.chaos.injectors import node
from holdfast.lab.cluster import Lab, TooLate

JOB = "bench"


def node_lost(folder: Path, seed: int) -> Iterator[Try]:
    """SIGKILL to the init of a node that has ranks: everything of it and its link are gone."""
    marks = Marks(folder)
    with Lab(folder / "lab", nodes=NODES, standbys=1) as lab:
        try:
            lab.ready(within_s=LAUNCH_WITHIN_S)
            lab.submit(job_of(JOB, folder, str(SCRIPT), str(folder), standbys=1))
        except TooLate as late:
            raise NotStarted(str(late)) from late
        first_steps(marks, 0, "holdfast")
        hurt_ns = time.monotonic_ns()
        node.lost(lab, JOB, Random(seed))
        yield back_again(marks, hurt_ns, "node lost", "holdfast")
