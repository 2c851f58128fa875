"""The built-in workload under `holdfast run`, with its snapshots in memory.

Called by `benchmark`. The workload leaves a metrics line a step without a time, so the file is
looked at every 5 ms; that is the resolution.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.bench.figures import Try
from holdfast.bench.restart.marks import pid_writing, wait
from holdfast.bench.restart.systems import Holdfast, runs
from holdfast.bench.restart.turns import BACK_WITHIN_S, LAUNCH_WITHIN_S, WARM_STEPS, NotStarted

WORDS = ("-m", "holdfast.workload.main", "--tp", "2", "--pp", "2", "--steps", "1000000")


class Progress:
    """The highest step in any attempt's metrics, and the file that was written last."""

    def __init__(self, folder: Path) -> None:
        self._runs = runs(folder)
        self.step = 0
        self.file: Path | None = None

    def reached(self, step: int) -> bool:
        """Look again; whether `step` is done."""
        for path in self._runs.glob("*/jobs/*/attempt_*/rank_*/metrics.jsonl"):
            lines = path.read_bytes().rpartition(b"\n")[0].splitlines()
            last = msgspec.json.decode(lines[-1])["step"] if lines else 0
            if last > self.step:
                self.step, self.file = last, path
        return self.step >= step


def rank_killed(system: Holdfast, folder: Path) -> Iterator[Try]:
    """Launch; then SIGKILL to the rank of the last stage that writes the metrics."""
    progress, began_s = Progress(folder), time.monotonic()
    with system.run(folder, WORDS):
        if not wait(lambda: progress.reached(1), within_s=LAUNCH_WITHIN_S):
            raise NotStarted(f"the workload did no step within {LAUNCH_WITHIN_S:g} s")
        launch_s = time.monotonic() - began_s
        yield Try(system=system.name, figure="workload: launch to first step", value=launch_s)
        wait(lambda: progress.reached(WARM_STEPS), within_s=LAUNCH_WITHIN_S)
        assert progress.file is not None, "step 1 was seen in it"
        pid, hurt_s = pid_writing(progress.file), time.monotonic()
        os.kill(pid, signal.SIGKILL)
        progress.reached(0)
        before = progress.step
        figure = "workload: rank killed (SIGKILL)"
        if wait(lambda: progress.reached(before + 1), within_s=BACK_WITHIN_S):
            yield Try(system=system.name, figure=figure, value=time.monotonic() - hurt_s)
        else:
            note = f"not back within {BACK_WITHIN_S:g} s"
            yield Try(system=system.name, figure=figure, note=note)
