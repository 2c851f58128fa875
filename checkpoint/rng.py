"""The random generators of a process: part of every snapshot, or a resumed run is another run.

Used by the checkpointer. Must not draw a number, nor wake a device that was not in use.
"""

import random  # noqa: TID251 - its state is saved here; nothing is drawn from it
import sys
from importlib.util import find_spec
from typing import Any

import torch


def capture() -> dict[str, Any]:
    """The states of Python's generator, torch's, and NumPy's and CUDA's where they are in use."""
    version, words, gauss = random.getstate()
    state: dict[str, Any] = {
        "python": {"version": version, "words": torch.tensor(words), "gauss": gauss},
        "torch": torch.get_rng_state(),
    }
    if numpy := sys.modules.get("numpy"):
        kind, words, place, has_gauss, gauss = numpy.random.get_state()
        state["numpy"] = {
            "kind": kind,
            "words": torch.from_numpy(words.astype("int64")),
            "place": int(place),
            "has_gauss": int(has_gauss),
            "gauss": float(gauss),
        }
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def misfits(state: dict[str, Any]) -> list[str]:
    """What of a captured state cannot be put back here, a sentence each."""
    wrong = []
    if "cuda" in state and not torch.cuda.is_available():
        wrong.append("holdfast.rng.cuda: the checkpoint has a GPU's generator, and here is no GPU")
    if "numpy" in state and find_spec("numpy") is None:
        wrong.append("holdfast.rng.numpy: the checkpoint has NumPy's generator. Install NumPy.")
    return wrong


def put_back(state: dict[str, Any]) -> None:
    """Set the generators to what was captured; NumPy is loaded if its state was.

    A checkpoint that was made of others' weights has none.
    """
    if python := state.get("python"):
        random.setstate((python["version"], tuple(python["words"].tolist()), python["gauss"]))
    if "torch" in state:
        torch.set_rng_state(state["torch"])
    if "numpy" in state:
        import numpy as np

        saved = state["numpy"]
        words = saved["words"].numpy().astype("uint32")
        rest = (saved["place"], saved["has_gauss"], saved["gauss"])
        np.random.set_state((saved["kind"], words, *rest))
    if "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])
