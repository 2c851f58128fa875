"""A cluster that a person gives is asked only for what it can show, and as anybody asks for it."""

import asyncio
import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.lab.emulator.kubelet.link import by_the_gateway
from holdfast.lab.kubernetes.given import GivenCluster, NotPossible, checked
from holdfast.lab.kubernetes.kubeconfigs import Unusable
from holdfast.lab.kubernetes.kubectl import kubectl
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.lab.kubernetes.ports import free_ports

pytestmark = pytest.mark.kubernetes

Cluster = dict[str, str]
FLAT = ("config", "view", "--minify", "--flatten", "--raw")


@pytest.fixture
def kubeconfig(plane: ControlPlane, tmp_path: Path) -> Path:
    """As kind writes one: a single file, with all in it."""
    file = tmp_path / "theirs" / "config"
    file.parent.mkdir()
    file.write_text(plane.kubectl(*FLAT))
    return file


@pytest.fixture
def given(kubeconfig: Path, tmp_path: Path) -> Iterator[GivenCluster]:
    with GivenCluster(kubeconfig, tmp_path / "ours") as cluster:
        yield cluster


def test_a_given_cluster_is_used_as_it_is_and_says_what_is_not_ours_to_do(
    plane: ControlPlane, given: GivenCluster, kubeconfig: Path
) -> None:
    assert given.url == plane.url
    assert "kube-system" in given.kubectl("get", "namespaces", "-o", "name")
    assert given.read("/api/v1/namespaces/default")["metadata"]["name"] == "default"
    assert given.read("/api/v1/namespaces/none") == {}
    beside = list(kubeconfig.parent.iterdir())
    assert beside == [kubeconfig], "nothing is written beside a person's own file"
    with pytest.raises(NotPossible, match="it has no `stop`"):
        given.stop("etcd")
    with pytest.raises(NotPossible, match="it has no `audit`"):
        given.audit()


# ---------------------------------------------------------------- identities


def who_is(kubeconfig: Path) -> tuple[str, list[str]]:
    said = yaml.safe_load(kubectl(kubeconfig, ["auth", "whoami", "-o", "yaml"]))
    user: dict[str, Any] = said["status"]["userInfo"]
    return user["username"], user["groups"]


def test_a_node_gets_its_identity_from_the_cluster_and_leaves_no_request(
    given: GivenCluster,
) -> None:
    node = given.kubeconfig("system:node:given-1", ["system:nodes"], name="given-1")
    assert who_is(node) == ("system:node:given-1", ["system:nodes", "system:authenticated"])
    watch = given.kubeconfig("holdfast:emulated-kubelet", name="kubelet")
    assert who_is(watch) == ("holdfast:emulated-kubelet", ["system:authenticated"])
    secret = node.with_name("given-1.key")
    assert (secret.stat().st_mode & 0o077, node.stat().st_mode & 0o077) == (0, 0)
    left = given.kubectl("get", "csr", "-o", "name")
    assert "given-1" not in left
    assert "kubelet" not in left


def test_an_identity_that_the_cluster_gives_nobody_is_refused_in_its_words(
    given: GivenCluster,
) -> None:
    with pytest.raises(Unusable, match=r"no certificate: .*system:masters"):
        given.kubeconfig("root", ["system:masters"], name="root")
    assert "root" not in given.kubectl("get", "csr", "-o", "name")


def test_an_account_is_itself_there_and_believes_only_in_that_cluster(given: GivenCluster) -> None:
    account = given.as_account("default", "default")
    assert who_is(account)[0] == "system:serviceaccount:default:default"
    behind = given.as_account("default", "default", url=given.url)
    with pytest.raises(Exception, match="unknown authority"):
        who_is(behind)  # what it is to reach there shows a certificate of ours


@pytest.mark.parametrize(
    ("named", "believed"), [({"tls-server-name": "of.theirs"}, "of.theirs"), ({}, "10.1.2.3")]
)
def test_a_node_believes_only_in_the_server_that_the_kubeconfig_names(
    kubeconfig: Path, named: Cluster, believed: str
) -> None:
    """Though it reaches that by the gateway, at an address of its own."""
    changed(kubeconfig, lambda cluster: cluster.update(server="https://10.1.2.3:6443", **named))
    configuration = asyncio.run(by_the_gateway(kubeconfig)())
    assert configuration.tls_server_name == believed
    assert "198.18.0.1" in configuration.host


# ---------------------------------------------------------------- what cannot be used


def changed(kubeconfig: Path, change: Callable[[Cluster], object]) -> None:
    content = yaml.safe_load(kubeconfig.read_text())
    change(content["clusters"][0]["cluster"])
    kubeconfig.write_text(yaml.safe_dump(content))


def test_an_admins_is_good(kubeconfig: Path) -> None:
    assert checked(kubeconfig)["server"].startswith("https://")


def test_a_file_that_is_not_there_is_refused_with_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match=r"none is not there\. Name .*: --kubeconfig FILE$"):
        checked(tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "why"), [("a: [b", "error loading"), ("a: b", "current-context must exist")]
)
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(Unusable, match=rf"config cannot be used: {why}.*--kubeconfig FILE$"):
        checked(tmp_path / "config")


def test_a_server_that_does_not_answer_is_named(kubeconfig: Path) -> None:
    nobody = f"https://127.0.0.1:{free_ports(1)[0]}"
    changed(kubeconfig, lambda cluster: cluster.update(server=nobody))
    with pytest.raises(
        Unusable, match=rf"^{nobody} does not answer: .*refused.*port\? [A-Z][^.]*FILE\.?$"
    ):
        checked(kubeconfig)


def test_a_server_that_nobody_vouches_for_is_not_believed(kubeconfig: Path) -> None:
    changed(kubeconfig, lambda cluster: cluster.pop("certificate-authority-data"))
    with pytest.raises(Unusable, match="does not say who vouches for https://"):
        checked(kubeconfig)


def test_another_server_than_the_one_that_is_vouched_for_is_not_believed(
    given: GivenCluster, kubeconfig: Path
) -> None:
    other = base64.b64encode((given.ca.parent / "ca.crt").read_bytes()).decode()
    changed(kubeconfig, lambda cluster: cluster.update({"certificate-authority-data": other}))
    with pytest.raises(Unusable, match=r"does not answer: .*unknown authority"):
        checked(kubeconfig)


def test_one_who_is_no_admin_is_refused(given: GivenCluster, tmp_path: Path) -> None:
    ada = tmp_path / "ada"
    ada.write_text(kubectl(given.kubeconfig("ada", name="ada"), FLAT))
    with pytest.raises(Unusable, match=rf"ada is no admin's at {given.url}\. Name "):
        checked(ada)
