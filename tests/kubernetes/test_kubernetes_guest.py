"""Holdfast as a guest on a cluster of which it has the kubeconfig alone, and what it leaves there.

That cluster is a second control plane: nothing here looks at its processes or files.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.lab import guest
from holdfast.lab.chaos.kubernetes.given import GivenStage
from holdfast.lab.chaos.kubernetes.scenarios import SCENARIOS
from holdfast.lab.chaos.kubernetes.stage import GRACE_S
from holdfast.lab.chaos.scenarios import chosen
from holdfast.lab.emulator.namespaces import Kind, best_kind
from holdfast.lab.kubernetes.kubeconfigs import Unusable
from holdfast.lab.kubernetes.kubectl import kubectl
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.lab.on_kubernetes import KubernetesLab

pytestmark = [
    *(pytest.mark.kubernetes, pytest.mark.cluster, pytest.mark.slow),
    pytest.mark.timeout(900),
]

OTHERS = """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: others}
spec:
  selector: {matchLabels: {app: others}}
  template:
    metadata: {labels: {app: others}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: main, image: registry.example.com/others:1}]
"""
"""As every cluster has some: it wants a pod on each node that joins, which cannot run there."""


@pytest.fixture(scope="module")
def theirs(own_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a cluster in which Holdfast never was."""
    if best_kind()[0] is Kind.LOOPBACK:
        pytest.skip(f"no namespaces here: {best_kind()[1]}")
    file = tmp_path_factory.mktemp("theirs") / "config"
    with ControlPlane(tmp_path_factory.mktemp("plane"), grace_s=GRACE_S) as plane:
        file.write_text(plane.kubectl("config", "view", "--flatten", "--raw"))
        plane.kubectl("apply", "-f", "-", input=OTHERS)
        yield file


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("guest")  # short: paths of sockets are bounded


def all_there(kubeconfig: Path) -> list[str]:
    """By kind and name, of the kinds that we make."""
    kinds = "namespaces,nodes,csr,crd,clusterroles,clusterrolebindings,priorityclasses,daemonsets"
    return kubectl(kubeconfig, ["get", kinds, "-o", "name"]).split()


def leases(kubeconfig: Path) -> list[str]:
    return kubectl(kubeconfig, ["-n", guest.LEASES, "get", "leases", "-o", "name"]).split()


def test_whoever_finds_a_holdfast_there_does_not_touch_it(theirs: Path, folder: Path) -> None:
    before, said = all_there(theirs), list[str]()
    with guest.guest(theirs, folder / "first", said.append):
        there = all_there(theirs)
        assert "namespace/holdfast" in there
        with (
            pytest.raises(Unusable, match=r"has a Holdfast.*Remove that, or give another cluster"),
            guest.guest(theirs, folder / "second", said.append),
        ):
            pass
        assert all_there(theirs) == there
    assert all_there(theirs) == before
    assert [each.partition(" at ")[0] for each in said] == ["removing what was made"]


def joined_then_cut(stage: GivenStage, kubeconfig: Path) -> None:
    """The nodes of a laboratory are there, and Ctrl-C comes."""
    with stage, stage.lab("cut", None) as lab:
        assert isinstance(lab, KubernetesLab)
        lab.ready()
        there = {*all_there(kubeconfig)}
        assert {"namespace/chaos-cut", *(f"node/{name}" for name in lab.joined.names)} <= there
        assert len(leases(kubeconfig)) == len(lab.joined.names)
        raise KeyboardInterrupt


def test_a_ctrl_c_leaves_nothing_of_the_nodes_that_had_joined(theirs: Path, folder: Path) -> None:
    before = all_there(theirs)
    stage = GivenStage(folder, kubeconfig=theirs, steps=30, seed=1, say=lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        joined_then_cut(stage, theirs)
    assert not list((folder / "given").rglob("*.key")), "nor of the keys that it had signed"
    assert (all_there(theirs), leases(theirs)) == (before, [])


@pytest.mark.torch
def test_a_scenario_passes_there_and_says_what_it_could_not_look_at(
    theirs: Path, folder: Path
) -> None:
    before, said = all_there(theirs), list[str]()
    (scenario,) = chosen(["driver-killed-restoring"], SCENARIOS)
    with GivenStage(folder, kubeconfig=theirs, steps=30, seed=1, say=said.append) as stage:
        score = stage.play(scenario)
    assert score.passed, (score, said)
    assert (score.innocent_evicted, score.loss_equal_bitwise) == (0, True)
    assert "nothing was forbidden" in score.not_looked_at
    assert "each fork once" not in score.not_looked_at
    assert (all_there(theirs), leases(theirs)) == (before, [])
