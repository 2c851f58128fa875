"""A rank takes part in another collective than its peers, or in none, once."""

import torch
import torch.distributed as dist

from holdfast.workload.train import Trainer


def other(trainer: Trainer) -> None:
    """A barrier, where its peers agree on the loss."""

    def barrier(tensor: torch.Tensor) -> torch.Tensor:
        dist.barrier()
        return tensor

    _instead(trainer, barrier)


def sizes(trainer: Trainer) -> None:
    """The same collective, of more numbers than those of its peers."""

    def larger(tensor: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(torch.ones(4_096))
        return tensor

    _instead(trainer, larger)


def skip(trainer: Trainer) -> None:
    """It goes on by itself, one collective ahead of its peers from now on."""
    _instead(trainer, lambda tensor: tensor)


def _instead(trainer: Trainer, done: object) -> None:
    """Once, in place of the step's only all-reduce of the world."""
    world = trainer.grid.world

    def once(tensor: torch.Tensor) -> torch.Tensor:
        del world.all_reduce  # the class's own is there again
        return done(tensor)  # type: ignore[operator, no-any-return]

    setattr(world, "all_reduce", once)  # noqa: B010 - a user who patches a library


BUGS = {"other": other, "sizes": sizes, "skip": skip}
