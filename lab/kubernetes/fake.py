"""Nodes that are words only: kwok says for them that they are ready and that their pods run.

Used where a cluster has to be large and nothing has to run on most of it. Fakes the Node objects
that carry its annotation and leaves all others alone, so that real ones can stand beside them.
"""

from pathlib import Path
from typing import Self

import yaml

from holdfast.lab.kubernetes.build import KWOK, cached
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.lab.kubernetes.process import Process
from holdfast.lab.kubernetes.programs import command

ANNOTATION = "kwok.x-k8s.io/node"
FAKE = {ANNOTATION: "fake"}
"""Annotations of a Node object that is to be faked."""


class FakeNodes:
    """kwok beside a control plane, for as long as a `with`. Whoever wants nodes creates them.

    Their leases are of `lease_s` and renewed four times within: with the control plane's `grace_s`
    below that, they would be NotReady now and then. A pod runs `start_s` after it is bound. Raises
    `NotHere` where kwok is not built.
    """

    def __init__(self, plane: ControlPlane, *, lease_s: int = 40, start_s: float = 0.0) -> None:
        self._plane = plane
        self._lease_s = lease_s
        self._start_s = start_s

    def __enter__(self) -> Self:
        who = self._plane.kubeconfig("kwok", ["system:masters"], name="kwok")
        stages = self._stages(Path(who).with_name("stages.yaml"))
        words = [
            *command(KWOK.binary),
            f"--kubeconfig={who}",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-annotation-selector={ANNOTATION}=fake",
            f"--node-lease-duration-seconds={self._lease_s}",
            f"--config={stages}",
        ]
        self._process = Process("kwok", words, log=Path(who).parents[1] / "kwok.log")
        return self

    def _stages(self, at: Path) -> Path:
        """What becomes of nodes and pods, as kwok has it, but for when a pod runs."""
        beside = cached(KWOK).parent
        stages = [yaml.safe_load((beside / stage).read_bytes()) for stage in KWOK.files]
        for stage in stages:
            if stage["metadata"]["name"] == "pod-ready":
                stage["spec"]["delay"] = {"durationMilliseconds": round(self._start_s * 1_000)}
        at.write_text(yaml.safe_dump_all(stages))
        return at

    @property
    def pid(self) -> int:
        """Of kwok."""
        return self._process.pid

    def __exit__(self, *exc_info: object) -> None:
        self._process.kill()
