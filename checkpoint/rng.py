"""The random generators of a process: part of every snapshot, or a resumed run is another run.

Used by the checkpointer. Must not draw a number, nor wake a device that was not in use.
"""

import random  # noqa: TID251 - its state is saved here; nothing is drawn from it
import sys
from typing import Any

import torch


def capture() -> dict[str, Any]:
    """The states of Python's generator, torch's, and NumPy's and CUDA's where they are in use."""
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if numpy := sys.modules.get("numpy"):
        kind, keys, *rest = numpy.random.get_state()
        state["numpy"] = (
            kind,
            keys.tolist(),
            *(number.item() if hasattr(number, "item") else number for number in rest),
        )
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def put_back(state: dict[str, Any]) -> None:
    """Set the generators to what was captured; NumPy is loaded if its state was."""
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state:
        import numpy as np

        np.random.set_state(state["numpy"])
    if "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])
