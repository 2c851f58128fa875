"""TensorBoard: restarts are marked. Where its files lie is the script's own: with the same folder
in each attempt the curves go on. Tried with torch 2.15 and tensorboard 2.21."""

import functools
from typing import Any

from holdfast.telemetry.trackers.start import harmless, start


def hook(module: Any) -> None:
    """Have each `SummaryWriter` of a later attempt begin with a text and a step of a curve."""
    writer = module.SummaryWriter
    inner = writer.__init__

    @functools.wraps(inner)
    def begin(self: Any, *arguments: Any, **named: Any) -> None:
        inner(self, *arguments, **named)
        with harmless("mark the restart in TensorBoard"):
            begun = start()
            if begun.again:
                self.add_text("holdfast/restarts", begun.sentence, begun.step)
                self.add_scalar("holdfast/attempt", begun.attempt, begun.step)

    writer.__init__ = begin
