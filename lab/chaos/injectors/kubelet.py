"""The kubelet of a node, or of all, is frozen or killed while the ranks there go on.

A node whose kubelet is silent is NotReady to the whole cluster. Its ranks know nothing of it.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from holdfast.driver.adapters.kubernetes import facts
from holdfast.keeper.state import NodeRecord
from holdfast.kubeapi import paths
from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, on_kubernetes
from holdfast.lab.emulator.kubelet.knobs import Knobs
from holdfast.lab.on_kubernetes import KubernetesLab

NOT_READY_WITHIN_S = 60.0
STAYS_S = 5.0
"""How long a node is NotReady then: longer than silence alone would have to be."""


@on_kubernetes
def frozen(lab: KubernetesLab, job: str, rng: Random) -> Done:
    """That of one node of the job does nothing any more, until the node was NotReady a while."""
    node = rng.choice(target.hosts_of(lab, job))
    with _frozen(lab, node):
        _stay_not_ready(lab, [node])
    return Done(said=f"the kubelet of {node.name} is frozen until it is NotReady", node=node.name)


@on_kubernetes
def all_stopped(lab: KubernetesLab, job: str, _rng: Random) -> Done:
    """SIGSTOP to the one process that is the kubelet of all nodes."""
    pid = target.wait_for(lambda: lab.pid("kubelet"), "the kubelet", 10.0)
    hosts = target.hosts_of(lab, job)
    os.kill(pid, signal.SIGSTOP)
    try:
        _stay_not_ready(lab, hosts)
    finally:
        os.kill(pid, signal.SIGCONT)
    return Done(
        said="the kubelets of all nodes are stopped until none is Ready", node=hosts[0].name
    )


@on_kubernetes
def killed(lab: KubernetesLab, _job: str, _rng: Random) -> Done:
    """SIGKILL to the kubelet of all nodes; its owner starts another, which adopts what runs."""
    lab.joined.kill_kubelet()
    return Done(said="SIGKILL to the kubelet of all nodes")


@contextmanager
def _frozen(lab: KubernetesLab, node: NodeRecord) -> Iterator[None]:
    lab.joined.turn(node.name, Knobs(frozen=True))
    try:
        yield
    finally:
        lab.joined.turn(node.name, Knobs())


def _stay_not_ready(lab: KubernetesLab, nodes: list[NodeRecord]) -> None:
    """Return once none of the nodes has been Ready for a while."""

    def none_is_ready() -> bool:
        return not any(facts.ready(lab.plane.read(paths.nodes(node.name))) for node in nodes)

    what = f"{', '.join(node.name for node in nodes)} NotReady"
    target.wait_for(none_is_ready, what, NOT_READY_WITHIN_S)
    time.sleep(STAYS_S)
