"""Weights & Biases: the same run after a restart, which is marked. Tried with wandb 0.31.

A run's id is in `WANDB_RUN_ID` or `init(id=…)`, and `resume="allow"` goes on with one that is there
(docs.wandb.ai, "Resume a run"). Offline, each attempt is a folder with that id, which `wandb sync`
brings into one run.
"""

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any

from holdfast.telemetry.trackers.start import Runs, Start, added, harmless, start

OWN = (
    *("WANDB_RUN_ID", "WANDB_RESUME", "WANDB_SWEEP_ID"),
    *("WANDB_FORK_FROM", "WANDB_RESUME_FROM"),
)
"""Variables with which a script, or who started it, says itself which run it is."""
NAMED = ("id", "run_id", "resume", "fork_from", "resume_from")
"""The same of `init` and its settings: beside the last two `resume` is an error."""

_runs = Runs()


def hook(module: Any) -> None:
    """Have `wandb.init` go on, where the script does not say how."""
    inner = module.init

    @functools.wraps(inner)
    def init(*arguments: Any, **named: Any) -> Any:
        if module.run is not None:  # it has begun one: that is what it gets
            return inner(*arguments, **named)
        with harmless("go on with the W&B run"):
            arguments, named = added(inner, arguments, named, _same(inner, arguments, named))
        run = inner(*arguments, **named)
        with harmless("mark the restart in W&B"):
            _mark(run, start())
        return run

    module.init = init


def _same(inner: Callable[..., Any], arguments: Any, named: dict[str, Any]) -> dict[str, str]:
    """The id and what to do with it; nothing where the script names its run."""
    begun, given = start(), inspect.signature(inner).bind_partial(*arguments, **named).arguments
    settings = given.get("settings") or {}
    told = settings if isinstance(settings, dict) else dict(settings)
    own = any(told.get(name) or given.get(name) for name in NAMED)
    if own or not begun.life or any(map(os.environ.get, OWN)):
        return {}
    return {"id": _runs.next(begun), "resume": "allow"}


def _mark(run: Any, begun: Start) -> None:
    """The sentence among the run's configuration, and the attempt as a curve that rises there."""
    if begun.again:
        told = {f"holdfast/attempt-{begun.attempt}": begun.sentence}
        run.config.update(told, allow_val_change=True)
        run.log({"holdfast/attempt": begun.attempt}, commit=False)
