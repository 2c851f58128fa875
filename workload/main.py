"""The workload's entry point: `python -m holdfast.workload.main`, one process a rank.

Started by Holdfast's executor, by torchrun, or alone as a single rank.
"""

import os
import sys
from collections.abc import Sequence

import msgspec
import torch

from holdfast import telemetry
from holdfast.checkpoint import Checkpointer
from holdfast.protocol import exitcodes
from holdfast.workload.data import corpus
from holdfast.workload.grid import Grid, joined
from holdfast.workload.metrics import Metrics, Printer
from holdfast.workload.settings import Mistakes, Place, Settings, other_model, read
from holdfast.workload.train import Outcome, Progress, Trainer


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and return the exit code."""
    try:
        settings, place = read(sys.argv[1:] if arguments is None else arguments, os.environ)
        _train(settings, place, _text(settings))
    except (Mistakes, corpus.BadData) as error:
        print(error, file=sys.stderr)
        return exitcodes.USAGE
    return exitcodes.OK


def _train(settings: Settings, place: Place, text: torch.Tensor) -> None:
    be_deterministic()
    # what the command line said, for the checkpointer, which reads the environment
    os.environ["HOLDFAST_TOPOLOGY"] = msgspec.json.encode(settings.topology).decode()
    with joined(settings.topology, place) as grid:
        run(Trainer(settings, grid, text), place, text)


def be_deterministic() -> None:
    """The same bits each time: one thread a rank, deterministic kernels.

    `torch.use_deterministic_algorithms` means the same to eager code, but imports 900 modules of
    the compiler (torch 2.15), seconds at each start of a rank.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # CUDA's condition for it
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("error")


def run(trainer: Trainer, place: Place, text: torch.Tensor) -> None:
    """All steps from where the last checkpoint stands."""
    checkpointer = Checkpointer.from_env()
    resume(trainer, checkpointer)
    first, shards = trainer.progress.step, trainer.shards()
    metrics = _metrics(trainer, place)
    printer = Printer(trainer.settings) if place.rank == 0 else None
    if printer and first == 0:
        entropy = corpus.unigram_entropy_bits(text)
        print(f"text {len(text):,} bytes  unigram entropy {entropy:.3f} bits/byte", flush=True)
        print(f"{trainer.settings.shape.flops_per_token:.6g} FLOPs to train on a token", flush=True)
    while trainer.progress.step < trainer.settings.steps:
        outcome = trainer.step()
        if metrics:
            metrics.add(outcome)
        if printer:
            printer.show(outcome)
        _report(trainer, outcome)
        with telemetry.phase("checkpoint"):
            checkpointer.save(outcome.step, trainer.state(), shards=shards)
    if printer and trainer.progress.step > first:
        _say_traffic(trainer.grid, trainer.progress.step - first)


def resume(trainer: Trainer, checkpointer: Checkpointer) -> None:
    """Load the step that Holdfast says to start from, where there is one.

    Raises `Mistakes` where that is of another model, some of which fits.
    """
    state = trainer.state()
    if checkpointer.restore(state, shards=trainer.shards()) is None:
        return
    if sentences := other_model(trainer.settings.shape, state["shape"]):
        raise Mistakes(sentences)
    trainer.progress = Progress(step=state["scheduler"]["step"], position=state["data"]["position"])


def _text(settings: Settings) -> torch.Tensor:
    shape = settings.shape
    return corpus.read(settings.data, least_bytes=shape.seq * shape.global_batch + 1)


def _metrics(trainer: Trainer, place: Place) -> Metrics | None:
    """One rank a replica writes: the first of the last stage's tensor group."""
    grid = trainer.grid
    if place.rank_dir is None or not grid.is_last_stage or grid.tensor.index:
        return None
    return Metrics(place.rank_dir, trainer.settings)


def _report(trainer: Trainer, outcome: Outcome) -> None:
    shape = trainer.settings.shape
    tokens = outcome.step * shape.global_batch * shape.seq // trainer.settings.topology.dp
    telemetry.step(outcome.step, loss=outcome.loss, tokens=tokens, grad_norm=outcome.grad_norm)


def _say_traffic(grid: Grid, steps: int) -> None:
    """What rank 0 gave to each kind of collective, a step."""
    for (axis, operation), elements in sorted(grid.ledger.elements.items()):
        calls = grid.ledger.calls[axis, operation] / steps
        print(
            f"traffic of rank 0 a step: {axis} {operation} {calls:g} calls, "
            f"{elements / steps:,.0f} elements",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
