"""One rank that reduces with and without hooks, in turns: `script.py FOLDER PORT PAIRS COUNT`.

Prints a line for each pair: microseconds of CPU a collective, without and with hooks. Both are of
one process group of one process, in the order without, with, with, without, so that a machine that
grows slower or faster tells nothing. All threads of the process count: the pulse, too.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from holdfast.telemetry import current, hooks
from holdfast.telemetry.recorder import Recorder


def collectives_us(values: torch.Tensor, count: int) -> float:
    """Microseconds of CPU of each of `count`."""
    began_s = time.process_time()
    for _ in range(count):
        dist.all_reduce(values)
    return 1e6 * (time.process_time() - began_s) / count


class Watched:
    """The group, with hooks while it is entered, and nobody's hooks else."""

    def __init__(self, group: Any, recorder: Recorder) -> None:
        counts = recorder.new_group([0])
        assert counts is not None, "the ring has room for its first group"
        self._group, self._recorder, self._counts = group, recorder, counts

    def __enter__(self) -> None:
        current.recorder = self._recorder
        hooks.hook_group(self._group, self._recorder, self._counts, [0], polled=True)

    def __exit__(self, *exc_info: object) -> None:
        hooks.unhook_group(self._group)
        current.recorder = None


def main(folder: Path, port: str, pairs: int, count: int) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": "0", "WORLD_SIZE": "1"}
    os.environ |= {"HOLDFAST_RING": str(folder / "ring")}
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    hooks.install()
    recorder = current.recorder
    assert recorder is not None, "the hooks are in"
    watched, values = Watched(dist.group.WORLD, recorder), torch.ones(1_024)
    current.recorder = None
    collectives_us(values, count)  # nothing is measured that happens once
    for _ in range(pairs):
        first = collectives_us(values, count)
        with watched:
            more = [collectives_us(values, count) for _ in range(2)]
        last = collectives_us(values, count)
        print((first + last) / 2, sum(more) / 2, flush=True)
    dist.destroy_process_group()  # else its threads may meet an interpreter that is gone


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
