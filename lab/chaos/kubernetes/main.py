"""`holdfast chaos run --cluster kubernetes`: as `chaos.main`, on a real API server.

Called by the command line, which reads the options.
"""

from collections.abc import Sequence
from pathlib import Path

from holdfast.lab.chaos import main
from holdfast.lab.chaos.kubernetes.scenarios import OnKubernetes
from holdfast.lab.chaos.kubernetes.stage import Stage
from holdfast.lab.demo.kubernetes import prepare
from holdfast.lab.kubernetes.build import BuildFailed, NotHere

FAILURES = (*Stage.failures, NotHere, BuildFailed)
"""Why nothing could be played; the message says it."""


def run(
    scenarios: Sequence[OnKubernetes], *, as_json: bool, seed: int, steps: int, folder: Path | None
) -> int:
    """As `chaos.main.run`. Raises `FAILURES`."""
    prepare(main.say)
    return main.run(scenarios, as_json=as_json, seed=seed, steps=steps, folder=folder, on=Stage)
