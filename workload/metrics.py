"""What a run says: one JSON line a step in the rank's folder, a printed line now and then.

Called by `main`. Must not decide anything.
"""

import math
import time
from pathlib import Path
from typing import IO

import msgspec

from holdfast.workload.settings import Settings
from holdfast.workload.train import Outcome

FILE = "metrics.jsonl"


def bits_per_byte(loss_nats: float) -> float:
    """A loss in nats a token in bits; a token is a byte."""
    return loss_nats / math.log(2)


class Metrics:
    """Appends a line a step to `metrics.jsonl`; each line is handed to the system at once.

    `loss_hex` is the loss bit for bit (`float.hex`), `tokens` those of the whole job so far,
    `samples` the numbers of the samples that this replica read in this step.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._file: IO[bytes] = (folder / FILE).open("ab", buffering=0)
        self._tokens_a_step = settings.shape.global_batch * settings.shape.seq

    def add(self, outcome: Outcome) -> None:
        line = {
            "step": outcome.step,
            "loss": outcome.loss,
            "loss_hex": outcome.loss.hex(),
            "bits_per_byte": bits_per_byte(outcome.loss),
            "tokens": outcome.step * self._tokens_a_step,
            "grad_norm": outcome.grad_norm,
            "samples": outcome.samples,
        }
        self._file.write(msgspec.json.encode(line) + b"\n")


class Printer:
    """Prints a step now and then, with the speed since the line before."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._since: tuple[int, float] | None = None

    def show(self, outcome: Outcome) -> None:
        if self._since is None:
            self._since = (outcome.step, time.monotonic())
            print(_line(outcome, speed=""), flush=True)
        elif outcome.step % self._settings.print_every == 0:
            step, then_s = self._since
            now_s = time.monotonic()
            step_s = (now_s - then_s) / max(1, outcome.step - step)
            tokens = self._settings.shape.global_batch * self._settings.shape.seq
            speed = f"  {step_s * 1e3:.0f} ms/step  {tokens / step_s:,.0f} tokens/s"
            self._since = (outcome.step, now_s)
            print(_line(outcome, speed=speed), flush=True)


def _line(outcome: Outcome, *, speed: str) -> str:
    bits = bits_per_byte(outcome.loss)
    return (
        f"step {outcome.step:>5}  loss {outcome.loss:.4f}  {bits:.3f} bits/byte  "
        f"gradient {outcome.grad_norm:.3f}{speed}"
    )
