"""MLflow: the same run after a restart, which is marked. Tried with mlflow 3.17.

A run that `mlflow.start_run()` begins gets a tag by which a later attempt finds it, wherever it
runs. One that ended well is not gone on with: what a script begins after it is another.
"""

import functools
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

from holdfast.telemetry.trackers.start import Runs, Start, added, harmless, say, start

TAG = "holdfast.run"
OWN = "MLFLOW_RUN_ID"
NAMED = ("run_id", "nested", "parent_run_id")

_runs = Runs()
_again: set[str] = set()
"""Ids of runs that an earlier attempt began."""


def hook(module: Any) -> None:
    """Have `mlflow.start_run` go on, where the script names no run."""
    inner = module.start_run

    @functools.wraps(inner)
    def start_run(*arguments: Any, **named: Any) -> Any:
        ours: Start | None = None
        with harmless("go on with the MLflow run"):
            begun = start()
            given = inspect.signature(inner).bind_partial(*arguments, **named).arguments
            own = not begun.life or any(map(given.get, NAMED)) or bool(os.environ.get(OWN))
            ours = None if own else begun
            if not own and module.active_run() is None:
                same = _same(module, begun, given)
                arguments, named = added(inner, arguments, named, same)
        run = inner(*arguments, **named)
        if ours is not None and ours.again:
            with harmless("mark the restart in MLflow"):
                _mark(module, ours)
        return run

    _put(module, "start_run", start_run)
    for name in ("log_param", "log_params"):
        _put(module, name, _kept(module, getattr(module, name)))


def _put(module: Any, name: str, hooked: Callable[..., Any]) -> None:
    """In its place; also in `mlflow` itself, which a warm launcher may have loaded before."""
    setattr(module, name, hooked)
    if (package := sys.modules.get("mlflow")) is not None and hasattr(package, name):
        setattr(package, name, hooked)


def _same(module: Any, begun: Start, given: dict[str, Any]) -> dict[str, Any]:
    """The run of the attempt before, or the tag by which a later one finds this."""
    name = _runs.next(begun)
    if begun.again:
        where = given.get("experiment_id") or module._get_experiment_id()
        wanted = f"tags.`{TAG}` = '{name}' and attributes.status != 'FINISHED'"
        found = module.MlflowClient().search_runs([where], wanted, max_results=1)
        if found:
            _again.add(found[0].info.run_id)
            return {"run_id": found[0].info.run_id}
    return {"tags": {**(given.get("tags") or {}), TAG: name}}


def _mark(module: Any, begun: Start) -> None:
    module.set_tag(f"holdfast.attempt-{begun.attempt}", begun.sentence)
    module.log_metric("holdfast/attempt", begun.attempt, step=begun.step)


def _kept(module: Any, inner: Callable[..., Any]) -> Callable[..., Any]:
    """In a run that is gone on with, a parameter that is another by now is no error: in a run of
    its own it would have been none."""

    @functools.wraps(inner)
    def log(*arguments: Any, **named: Any) -> Any:
        try:
            return inner(*arguments, **named)
        except module.MlflowException as error:
            run = module.active_run()
            if run is None or run.info.run_id not in _again:
                raise
            say(f"MLflow keeps the parameters of the first attempt: {str(error).splitlines()[0]}")
            return None

    return log
