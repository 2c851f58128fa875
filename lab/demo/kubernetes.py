"""The demo on a real Kubernetes, played through kubectl: `holdfast demo --cluster kubernetes`.

Called by the command line. The acts are those of `demo.main`; cluster and fault differ.
"""

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from holdfast.driver.adapters.kubernetes import facts
from holdfast.keeper import processes
from holdfast.kubeapi import paths
from holdfast.lab import guest
from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, node
from holdfast.lab.chaos.scenario import Expected, Scenario
from holdfast.lab.cluster import Lab
from holdfast.lab.demo import main
from holdfast.lab.demo.job import NODES, STANDBYS
from holdfast.lab.demo.main import HURT, Demo
from holdfast.lab.demo.summary import Summary
from holdfast.lab.demo.view import View
from holdfast.lab.demo.writers import OnKubernetes, Writers, with_writers, writers_of
from holdfast.lab.emulator.kubelet import joined
from holdfast.lab.emulator.namespaces import Kind, best_kind
from holdfast.lab.kubernetes import plane
from holdfast.lab.kubernetes.build import KUBERNETES, BuildFailed, NotHere, build
from holdfast.lab.kubernetes.kubeconfigs import Unusable
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.lab.kubernetes.programs import ASSETS
from holdfast.lab.on_kubernetes import KubernetesLab, install

CLEARED_WITHIN_S = MARKED_WITHIN_S = 150.0
"""A pod that is deleted may work on for two minutes, until its ranks have moved."""
LOST = "custom-columns=NODE:.metadata.name,TAINTS:.spec.taints[*].key"
FAILURES = (
    *(*main.FAILURES, Unusable, guest.Left),
    *(NotHere, BuildFailed, plane.NotReady, plane.KubectlFailed, joined.NotReady),
)


def unplugged(lab: Lab, job: str, rng: Random) -> Done:
    """The link of a node is cut, and the kubelet, one process for all nodes, is killed."""
    done = node.unplugged(lab, job, rng)
    processes.kill(target.wait_for(lambda: lab.pid("kubelet"), "the kubelet", within_s=10.0))
    said = f"{done.said}, and the kubelet is killed"
    return Done(said=said, node=done.node, at_s=done.at_s)


FAULT = Scenario(
    3,
    "node-unplugged",
    "the link of a node is cut, and the kubelet is killed",
    unplugged,
    Expected(may_evict=True, must_evict=True),
)
"""The one that is done here; `holdfast chaos run --cluster kubernetes` has the others."""


class Options(main.Options, frozen=True, kw_only=True):
    """`kubeconfig`: of a cluster that a person gives, in the place of one of ours."""

    kubeconfig: Path | None = None


class KubernetesDemo(Demo):
    """One run of it: what people would ask kubectl is asked, and shown."""

    def __init__(self, lab: KubernetesLab, options: main.Options, view: View) -> None:
        super().__init__(lab, options, view)
        self._kubernetes = lab

    def _bring_back(self, incidents: list[dict[str, Any]]) -> None:
        """Show what became of the node, plug it in, and wait until it has heard."""
        lab = self._kubernetes
        lab.kubectl("get", "tj")
        lab.kubectl("get", "pods", "-o", "wide")
        evicted = {name for incident in incidents for name in incident["evicted"]}
        lab.until(lambda: all(map(self._marked, evicted)), "all have their marks", MARKED_WITHIN_S)
        lab.kubectl("get", "nodes", "-o", LOST)
        for name in evicted:
            lab.joined.plug(name)
        self._set("the node is plugged in again")
        gone = "the node has heard that its pod is not wanted"
        ask = ("-n", lab.namespace, "get", "pods", "-o", "name")
        lab.until(lambda: not lab.plane.kubectl(*ask), gone, CLEARED_WITHIN_S)
        super()._bring_back(incidents)

    def _marked(self, node: str) -> bool:
        """Whether it has our taint, which may come later than all else."""
        return facts.distrust_of(self._kubernetes.plane.read(paths.nodes(node))) is not None


def run(options: Options) -> int:
    """Play it, Kubernetes being built first if need be. Raises one of `FAILURES`."""
    prepare(partial(_show, options), options.kubeconfig)
    given = options.kubeconfig
    return main.run(options, partial(_on_given, given) if given else _played)


def prepare(say: Callable[[str], None], kubeconfig: Path | None = None) -> None:
    """Have what a control plane and its nodes need, or see that a given one is fit for use.

    Raises `NotHere`, `BuildFailed`, `Unusable`.
    """
    kind, why = best_kind()
    if kind is Kind.LOOPBACK:
        raise NotHere(f"nodes need namespaces, and there are none here: {why}")
    if kubeconfig is not None:
        guest.free(kubeconfig)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # what is made there has to go
    elif not os.environ.get(ASSETS):
        build(lambda line: say(f"kubernetes: {line}"))


def _played(options: main.Options, folder: Path, view: View) -> OnKubernetes:
    show = partial(_show, options)
    show(f"starting a control plane of Kubernetes {KUBERNETES}")
    control_plane = ControlPlane(folder / "kubernetes")
    lab = KubernetesLab(folder, control_plane, nodes=NODES, standbys=STANDBYS, racks=2, show=show)
    with control_plane:
        install(control_plane)
        summarise, writers = _acted(lab, options, view)
    left = lab.leftovers().count + len(control_plane.leftovers())
    return with_writers(summarise(left), writers)


def _on_given(kubeconfig: Path, options: main.Options, folder: Path, view: View) -> OnKubernetes:
    """In a namespace of its own. That nothing of ours stays there is `guest`'s to see."""
    show = partial(_show, options)
    with guest.guest(kubeconfig, folder / "given", show) as given:
        lab = KubernetesLab(
            folder,
            given,
            nodes=NODES,
            standbys=STANDBYS,
            racks=2,
            show=show,
            namespace=HURT[0],
        )
        summarise, writers = _acted(lab, options, view)
    return with_writers(summarise(lab.leftovers().count), writers)


def _acted(
    lab: KubernetesLab, options: main.Options, view: View
) -> tuple[Callable[[int], Summary], Writers | None]:
    """What makes the summary once it is known what is left, and who wrote the status of pods, where
    the audit log shows that.
    """
    with lab:
        demo = KubernetesDemo(lab, options, view)
        with view:
            summarise = demo.play()
        lab.kubectl("get", "tj")
        lab.kubectl("describe", "tj", demo.hurt, since="Status:")
        shown = isinstance(lab.plane, ControlPlane)
        writers = writers_of(lab.plane.audit()) if shown else None
        if options.keep:
            _show(options, f"export KUBECONFIG={lab.plane.admin}")
        demo.stay_if_kept()
    return summarise, writers


def _show(options: main.Options, text: str) -> None:
    """On stderr where stdout belongs to JSON."""
    out = sys.stderr if options.as_json else sys.stdout
    out.write(text + "\n")
    out.flush()
