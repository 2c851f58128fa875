"""Plays scenarios on a cluster that a person gives, as `stage` does on a control plane of its own.

Called by `chaos.kubernetes.main`. That cluster is asked as its admin asks it, and no more: what of
a scenario it does not show is said not to have been looked at, and never counted as seen.
"""

from pathlib import Path
from typing import Self

from holdfast.lab.chaos import play
from holdfast.lab.chaos.kubernetes import witnesses
from holdfast.lab.chaos.kubernetes.rows import OnKubernetes
from holdfast.lab.chaos.kubernetes.seen import Seen
from holdfast.lab.chaos.kubernetes.stage import Stage
from holdfast.lab.chaos.scenario import Scenario
from holdfast.lab.guest import guest, sweep
from holdfast.lab.kubernetes.given import GivenCluster
from holdfast.lab.kubernetes.kubeconfigs import Unusable


class GivenStage(Stage):
    """See the module. Whatever was made in the cluster is removed from it at the end."""

    failures = (*Stage.failures, Unusable)
    shows_audit_log = False

    def __init__(
        self, root: Path, *, kubeconfig: Path, steps: int, seed: int, say: play.Say
    ) -> None:
        super().__init__(root, steps=steps, seed=seed, say=say)
        self._kubeconfig = kubeconfig

    def __enter__(self) -> Self:
        self._plane = self._up.enter_context(guest(self._kubeconfig, self.root / "given", self.say))
        return self

    def cannot(self, scenario: Scenario) -> str:
        assert isinstance(scenario, OnKubernetes)
        if scenario.starts_api:
            return "the API server of a cluster that is given is not ours to stop"
        if witnesses.BY_AUDIT_LOG.intersection((*scenario.there, *scenario.holds)):
            return "it is judged by the audit log, and a cluster that is given does not show that"
        return ""

    def _marked(self, seen: Seen) -> list[str]:
        return witnesses.marked_now(seen)

    def _give_up(self) -> None:
        assert isinstance(self._plane, GivenCluster)
        sweep(self._plane)
