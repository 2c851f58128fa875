"""The checkpoint benchmark: a run for each kind of state and round. Called by `bench.main`."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import torch

from holdfast.bench.figures import Incomplete, Try
from holdfast.bench.restart.marks import wait
from holdfast.bench.restart.systems import Holdfast

SCRIPT = Path(__file__).with_name("script.py")
TURNS = 3
"""Of each way to save, in each run."""
ENDS_WITHIN_S = 600.0


def measure(
    rounds: int, take: Callable[[Try], None], say: Callable[[str], None], *, gib: float, device: str
) -> None:
    """Both kinds in each round. Raises `Incomplete`."""
    if device == "cuda" and not torch.cuda.is_available():
        raise Incomplete(f"--device cuda: torch {torch.__version__} finds no GPU here. Use cpu.")
    for number in range(rounds):
        for kind in ("tensors", "module"):
            say(f"round {number + 1} of {rounds}: a state of {gib:g} GiB on {device}, as {kind}")
            with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
                for one in run(Path(folder).resolve(), kind, gib, device):
                    take(one)


def run(folder: Path, kind: str, gib: float, device: str = "cpu") -> Iterator[Try]:
    ours = Holdfast()
    words = [str(SCRIPT), str(folder), kind, str(TURNS), str(gib), device]
    with ours.run(folder, words, ranks=1) as running:
        ended = wait(lambda: running.ended, within_s=ENDS_WITHIN_S)
    if not ended or running.failed:
        said = ours.log(folder).strip().splitlines() or ["it said nothing"]
        raise Incomplete(f"the run did not end well: {said[-1]}")
    for line in (folder / "measured").read_bytes().splitlines():
        one = msgspec.json.decode(line, type=Try)
        yield msgspec.structs.replace(one, figure=f"{kind}: {one.figure}")
