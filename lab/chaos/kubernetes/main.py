"""`holdfast chaos run --cluster kubernetes`: as `chaos.main`, on a real API server.

Called by the command line, which reads the options.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from holdfast.lab import guest
from holdfast.lab.chaos import main, play
from holdfast.lab.chaos.campaign import NoCampaign
from holdfast.lab.chaos.kubernetes.given import GivenStage
from holdfast.lab.chaos.kubernetes.rows import OnKubernetes
from holdfast.lab.chaos.kubernetes.stage import Stage
from holdfast.lab.demo.kubernetes import prepare
from holdfast.lab.kubernetes.build import BuildFailed, NotHere

FAILURES = (*GivenStage.failures, NoCampaign, guest.Left, NotHere, BuildFailed)
"""Why nothing could be played; the message says it."""


def run(
    scenarios: Sequence[OnKubernetes],
    *,
    as_json: bool,
    seed: int,
    steps: int,
    folder: Path | None,
    runs: int = 1,
    into: Path | None = None,
    kubeconfig: Path | None = None,
) -> int:
    """As `chaos.main.run`; on the cluster of `kubeconfig` where one is given. Raises `FAILURES`."""
    prepare(main.say, kubeconfig)
    on: Callable[..., play.Stage] = Stage
    if kubeconfig is not None:
        on = partial(GivenStage, kubeconfig=kubeconfig)
    return main.run(
        scenarios,
        as_json=as_json,
        seed=seed,
        steps=steps,
        folder=folder,
        runs=runs,
        into=into,
        on=on,
    )
