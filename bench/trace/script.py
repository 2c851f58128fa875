"""One rank that trains with spans and without, in turns: `script.py FOLDER PORT PAIRS STEPS WIDTH`.

Prints a line for each pair: milliseconds of wall time and of CPU a step, without spans and with
them. Both have the hooks and the ring of progress; their order is without, with, with, without, so
that a machine that grows slower or faster tells nothing. All threads of the process count.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from holdfast import telemetry
from holdfast.telemetry import current, hooks

LAYERS, MICRO_BATCHES = 4, 4


class Training:
    """A step of four micro-batches: 8 phases and 5 more, 12 collectives, an optimizer's step."""

    def __init__(self, width: int) -> None:
        self._width = width
        layers = [torch.nn.Linear(width, width) for _ in range(LAYERS)]
        self._model = torch.nn.Sequential(*layers)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=1e-4)
        self._step = 0

    def step(self) -> None:
        self._optimizer.zero_grad()
        for _ in range(MICRO_BATCHES):
            with telemetry.phase("data"):
                batch = torch.ones(64, self._width)
            with telemetry.phase("forward"):
                loss = self._model(batch).square().mean()
            with telemetry.phase("backward"):
                loss.backward()
        for parameter in self._model.parameters():
            assert parameter.grad is not None
            dist.all_reduce(parameter.grad)
        for _ in range(4):
            dist.all_reduce(torch.ones(8))
        with telemetry.phase("optimizer"):
            self._optimizer.step()
        self._step += 1
        telemetry.step(self._step)


def turn(training: Training, tracer: Any, steps: int) -> tuple[float, float]:
    """Milliseconds of wall time and CPU a step."""
    assert current.recorder is not None
    current.recorder.tracer = tracer
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    for _ in range(steps):
        training.step()
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    return 1e3 * wall_s / steps, 1e3 * cpu_s / steps


def main(folder: Path, port: str, pairs: int, steps: int, width: int) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": "0", "WORLD_SIZE": "1"}
    os.environ |= {"HOLDFAST_RING": str(folder / "job.e1.r0.ring")}
    torch.set_num_threads(1)
    hooks.install()
    dist.init_process_group("gloo")
    assert current.recorder is not None, "the hooks are in"
    tracer, training = current.recorder.tracer, Training(width)
    assert tracer is not None, "there is room for a ring of spans"
    turn(training, tracer, steps)  # nothing is measured that happens once
    for _ in range(pairs):
        off = [turn(training, None, steps)]
        on = [turn(training, tracer, steps) for _ in range(2)]
        off.append(turn(training, None, steps))
        print(*(sum(each) / 2 for each in (*zip(*off, strict=True), *zip(*on, strict=True))))
        sys.stdout.flush()


if __name__ == "__main__":
    folder, port, *numbers = sys.argv[1:]
    main(Path(folder), port, *map(int, numbers))
