"""A cluster that a person gives for the tests is asked only for what it can show."""

from pathlib import Path

import pytest

from holdfast.lab.kubernetes.given import GivenCluster, NotPossible
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = pytest.mark.kubernetes


def test_a_given_cluster_is_used_as_it_is_and_says_what_is_not_ours_to_do(
    plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_bytes(plane.admin.read_bytes())
    given = GivenCluster(kubeconfig)
    assert given.url == plane.url
    assert "kube-system" in given.kubectl("get", "namespaces", "-o", "name")
    assert given.read("/api/v1/namespaces/default")["metadata"]["name"] == "default"
    assert given.read("/api/v1/namespaces/none") == {}
    assert list(tmp_path.iterdir()) == [kubeconfig], "nothing is written beside a person's own file"
    with pytest.raises(NotPossible, match="makes no identity for ada"):
        given.kubeconfig("ada", name="ada")
    with pytest.raises(NotPossible, match="it has no `stop`"):
        given.stop("etcd")
    with pytest.raises(NotPossible, match="it has no `audit`"):
        given.audit()
