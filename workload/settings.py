"""What the workload is told: the command line, and the environment that torchrun or Holdfast sets.

Called by `main`. The only place of the workload that reads the environment. All mistakes are told
at once, each with its field, value and fix.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from holdfast.protocol.flops import per_token
from holdfast.protocol.topology import Topology

VOCABULARY = 256
"""V: one token a byte."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of the model, with the names of the papers: l, h, a, s, and b, B."""

    layers: int = 4
    hidden: int = 64
    heads: int = 4
    seq: int = 64
    micro_batch: int = 0  # 0: B / (d p), so that there are as many micro-batches as stages
    global_batch: int = 16
    block: str = "parallel"  # or "serial"

    @property
    def model(self) -> dict[str, int | str]:
        """What of it makes another model, which no checkpoint of this one fits."""
        return {name: getattr(self, name) for name in ("layers", "hidden", "heads", "seq", "block")}

    @property
    def flops_per_token(self) -> float:
        """To train on one; of the parameters those of its matrices, which are all but a few."""
        blocks = 12 * self.layers * self.hidden**2  # 4 h^2 of attention, 8 of the MLP
        return per_token(
            blocks + VOCABULARY * self.hidden,
            layers=self.layers,
            heads=self.heads,
            head_size=self.hidden // self.heads,
            sequence=self.seq,
        )

    def micro_batches(self, dp: int) -> int:
        """m = B / (d b): forwards that each pipeline runs in one step."""
        return self.global_batch // (dp * self.micro_batch)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One run of the workload."""

    shape: Shape = Shape()
    topology: Topology = field(default_factory=Topology)
    steps: int = 200
    data: tuple[Path, ...] = ()  # empty: this Python's own standard library
    optimizer: str = "adam"  # or "sgd"
    lr: float = 3e-3
    warmup_steps: int = 20
    dtype: str = "float32"  # or "float64"
    seed: int = 1
    print_every: int = 10


@dataclass(frozen=True, kw_only=True)
class Place:
    """Which rank this is, and where it may leave files."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    rank_dir: Path | None = None


@dataclass
class Mistakes(Exception):
    """What is wrong with the settings, one sentence each."""

    sentences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def parser() -> argparse.ArgumentParser:
    """The command line. Defaults come from `Settings` and `Shape`, so that they exist once."""
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.workload.main",
        description="Train a byte-level GPT by tensor x pipeline x data parallelism.",
    )
    shape, run = Shape(), Settings()
    for name, what in {
        "layers": "transformer blocks (l)",
        "hidden": "width of the model (h)",
        "heads": "attention heads (a)",
        "seq": "bytes of text a sample (s)",
        "micro_batch": "samples a forward (b), 0 for B / (d p)",
        "global_batch": "samples a step (B)",
    }.items():
        _number(parser, name, getattr(shape, name), what)
    parser.add_argument("--block", choices=("parallel", "serial"), default=shape.block)
    _number(parser, "steps", run.steps, "optimizer steps in all")
    parser.add_argument("--data", nargs="+", type=Path, default=[], metavar="PATH")
    parser.add_argument("--optimizer", choices=("adam", "sgd"), default=run.optimizer)
    parser.add_argument("--lr", type=float, default=run.lr)
    _number(parser, "warmup_steps", run.warmup_steps, "steps over which the rate rises to --lr")
    parser.add_argument("--dtype", choices=("float32", "float64"), default=run.dtype)
    _number(parser, "seed", run.seed, "of the weights and of the order of the samples")
    _number(parser, "print_every", run.print_every, "steps between printed lines")
    for axis, what in {"tp": "tensor", "pp": "pipeline", "dp": "data"}.items():
        _number(parser, axis, 0, f"{what}-parallel size, instead of HOLDFAST_TOPOLOGY")
    return parser


def _number(parser: argparse.ArgumentParser, name: str, default: int, what: str) -> None:
    option = "--" + name.replace("_", "-")
    parser.add_argument(option, type=int, default=default, help=f"{what} (default {default})")


def read(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[Settings, Place]:
    """Settings and place of this rank. Raises `Mistakes` with every mistake there is."""
    given = vars(parser().parse_args(arguments))
    place = _place(environment)
    sizes = {axis: given.pop(axis) for axis in ("tp", "pp", "dp")}
    topology, clash = _topology(sizes, environment.get("HOLDFAST_TOPOLOGY", ""), place.world_size)
    shape = Shape(**{name: given.pop(name) for name in Shape.__dataclass_fields__})
    if shape.micro_batch == 0:
        share = shape.global_batch // (topology.dp * topology.pp)
        shape = replace(shape, micro_batch=max(1, share))
    given["data"] = tuple(given["data"])
    settings = Settings(shape=shape, topology=topology, **given)
    sentences = clash + mistakes(settings, place.world_size)
    if sentences:
        raise Mistakes(sentences)
    return settings, place


def _place(environment: Mapping[str, str]) -> Place:
    folder = environment.get("HOLDFAST_RANK_DIR")
    return Place(
        rank=int(environment.get("RANK", "0")),
        local_rank=int(environment.get("LOCAL_RANK", "0")),
        world_size=int(environment.get("WORLD_SIZE", "1")),
        rank_dir=Path(folder) if folder else None,
    )


def _topology(
    sizes: dict[str, int], from_environment: str, world_size: int
) -> tuple[Topology, list[str]]:
    """The layout, and what is wrong with asking for it.

    A HOLDFAST_TOPOLOGY of data parallelism alone is what a job has that said nothing; the command
    line may say more. One that splits the model was meant, and must not be contradicted: Holdfast
    locates faults and stores checkpoints by it.
    """
    told = (
        msgspec.json.decode(from_environment, type=Topology)
        if from_environment
        else Topology(dp=world_size)
    )
    if not any(sizes.values()):
        return told, []
    tp, pp = sizes["tp"] or 1, sizes["pp"] or 1
    asked = Topology(
        tp=tp, pp=pp, dp=sizes["dp"] or max(1, world_size // (tp * pp)), order=told.order
    )
    if asked == told or told.tp == told.pp == 1:
        return asked, []
    return asked, [
        f"--tp {asked.tp} --pp {asked.pp} --dp {asked.dp}: the job's topology is tp {told.tp}, "
        f"pp {told.pp}, dp {told.dp}. Leave these options out, or change the job's topology."
    ]


def mistakes(settings: Settings, world_size: int) -> list[str]:
    """Every reason why these settings cannot run; empty when they can. Pure."""
    shape, split = settings.shape, settings.topology
    replicas = split.dp * shape.micro_batch
    rules: list[tuple[bool, str]] = [
        (
            split.world_size == world_size,
            f"--tp {split.tp} x --pp {split.pp} x --dp {split.dp} = {split.world_size} ranks, but "
            f"WORLD_SIZE is {world_size}. Choose sizes whose product is {world_size}.",
        ),
        _divides("--hidden", shape.hidden, "--heads", shape.heads),
        _divides("--heads", shape.heads, "the tensor-parallel size", split.tp),
        _divides("--layers", shape.layers, "the pipeline-parallel size", split.pp),
        _divides("--global-batch", shape.global_batch, "--dp x --micro-batch", replicas),
        (settings.lr > 0, f"--lr: {settings.lr} is not above 0. Try 3e-3."),
    ]
    rules += [
        (value >= 1, f"--{name.replace('_', '-')}: {value} is below 1. Give a positive number.")
        for name, value in _counts(settings).items()
    ]
    return [sentence for holds, sentence in rules if not holds]


def other_model(here: Shape, saved: Mapping[str, int | str]) -> list[str]:
    """How a checkpoint's model is another one; empty where it is this. Pure."""
    return [
        f"--{name}: {value}, but the checkpoint's model has {saved[name]}. Give that."
        for name, value in here.model.items()
        if value != saved[name]
    ]


def _counts(settings: Settings) -> dict[str, Any]:
    names = ("layers", "hidden", "heads", "seq", "micro_batch", "global_batch")
    counts = {name: getattr(settings.shape, name) for name in names}
    return counts | {"steps": settings.steps, "print_every": settings.print_every}


def _divides(what: str, value: int, by: str, divisor: int) -> tuple[bool, str]:
    fits = divisor >= 1 and value % divisor == 0
    return fits, f"{what}: {value} is not a multiple of {by} {divisor}. Choose one that is."
