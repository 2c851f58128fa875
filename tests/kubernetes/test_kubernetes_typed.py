"""`holdfast` commands to a driver on Kubernetes, as people type them: the API server judges them.

Ada may edit jobs, read logs and change nodes; Ben is known and may do nothing. A job of theirs runs
on emulated nodes, and the driver has the shipped role.
"""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
import yaml
from shipped_driver import BASE, shipped_driver
from waiting import eventually

from holdfast.cli.main import app, main
from holdfast.kubeapi import paths
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.protocol import exitcodes
from holdfast.protocol.paths import RunPaths

pytestmark = [pytest.mark.kubernetes, pytest.mark.cluster]

NAMESPACE = "typed"
NODES = "typed-nodes"
BEN = f"the service account {NAMESPACE}:ben"
TRAIN = "import time\nfor step in range(10_000): print('step', step, flush=True); time.sleep(0.1)"

TYPED = {
    "submit": "submit job.yaml",
    "jobs": "jobs",
    "delete": "delete speech",
    "update": "update job.yaml",
    "stop": "stop speech",
    "suspend": "suspend speech",
    "resume": "resume speech",
    "status": "status speech",
    "story": "story speech",
    "ranks": "ranks speech",
    "heatmap": "heatmap speech",
    "timeline": "timeline speech",
    "view3d": "view3d speech",
    "fact": "fact speech tested --clears",
    "why": "why speech",
    "page": "page",
    "goodput": "goodput speech",
    "curves": "curves speech",
    "logs": "logs speech --tail 1",
    "stack": "stack speech 0",
    "burst take": "burst take node-1 --seconds 1",
    "burst ls": "burst ls speech",
    "burst show": "burst show speech 1",
    "top": "top speech",
    "incident": "incident speech",
    "incidents": "incidents speech",
    "digest": "digest",
    "webhook": "webhook",
    "webhook test": "webhook test on-call",
    "evict": "evict node-1 --reason loud",
    "restore": "restore node-1 --reason quiet",
    "nodes": "nodes",
    "nodes list": "nodes list",
    "nodes evict": "nodes evict node-1 --reason loud",
    "nodes restore": "nodes restore node-1 --reason quiet",
    "nodes maintain": "nodes maintain node-1 --reason kernel",
    "brake": "brake",
    "brake apply": "brake apply --reason rewired",
    "brake release": "brake release --reason done",
    "diagnose": "diagnose node-1",
    "calibrate": "calibrate --show",
}
"""Each command that asks a driver, and how it is typed here."""


class Answer(NamedTuple):
    """What a command said."""

    code: int
    out: str
    err: str


class Person:
    """Somebody at a terminal. `token`: "" for none."""

    def __init__(
        self,
        url: str,
        token: str,
        patch: pytest.MonkeyPatch,
        capture: pytest.CaptureFixture[str],
    ) -> None:
        self._url, self._token, self._patch, self._capture = url, token, patch, capture

    def types(self, words: str) -> Answer:
        if self._token:
            self._patch.setenv("HOLDFAST_TOKEN", self._token)
        else:
            self._patch.delenv("HOLDFAST_TOKEN", raising=False)
        self._capture.readouterr()
        code = main([*shlex.split(words), "--driver", self._url])
        return Answer(code, *self._capture.readouterr())

    def gets(self, words: str) -> str:
        """What it prints where it works."""
        answer = self.types(words)
        assert (answer.code, answer.err) == (exitcodes.OK, ""), answer
        return answer.out

    def refused(self, words: str) -> str:
        """The one sentence that it prints where it does not."""
        answer = self.types(words)
        assert answer.code not in (exitcodes.OK, exitcodes.USAGE), answer
        assert answer.out == ""
        (line,) = answer.err.splitlines()
        assert line.startswith("holdfast: ")
        return line.removeprefix("holdfast: ")

    def job(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.gets("status speech --json"))
        return found

    def until(self, phase: str) -> None:
        eventually(lambda: self.job()["phase"] == phase, f"it is {phase}")


class Typed(NamedTuple):
    """Where the driver answers, and tokens."""

    url: str
    ada: str
    ben: str


@pytest.fixture(scope="module")
def driven(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typed]:
    folder = tmp_path_factory.mktemp("typed")
    with shipped_driver(plane, folder, namespace=NAMESPACE, nodes=3):
        plane.kubectl("apply", "-f", str(BASE / "people.yaml"))
        plane.kubectl("create", "clusterrole", NODES, "--verb=list,patch", "--resource=nodes")
        tokens = [account(plane, name) for name in ("ada", "ben")]
        ada = f"--serviceaccount={NAMESPACE}:ada"
        for role in ("holdfast-edit", "view"):
            words = ("create", "rolebinding", f"ada-{role}", f"--clusterrole={role}", ada)
            plane.kubectl("-n", NAMESPACE, *words)
        plane.kubectl("create", "clusterrolebinding", NODES, f"--clusterrole={NODES}", ada)
        at = RunPaths(folder / "driver").address
        told = eventually(lambda: at.exists() and at.read_text(), "the driver answers")
        try:
            yield Typed(json.loads(told)["http"], *tokens)
        finally:
            plane.kubectl("delete", f"clusterrole/{NODES}", f"clusterrolebinding/{NODES}")


def account(plane: ControlPlane, name: str) -> str:
    """The token of a new service account."""
    plane.kubectl("-n", NAMESPACE, "create", "serviceaccount", name)
    return plane.kubectl("-n", NAMESPACE, "create", "token", name).strip()


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """job.yaml, where it is typed."""
    spec = {"nodes": 2, "command": ["python", "-c", TRAIN], "pod": {"image": "holdfast-executor:1"}}
    job = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "TrainingJob"}
    job |= {"metadata": {"name": "speech", "namespace": NAMESPACE}, "spec": spec}
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    return path


@pytest.fixture
def ada(
    driven: Typed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Person:
    return Person(driven.url, driven.ada, monkeypatch, capsys)


@pytest.fixture
def ben(
    driven: Typed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Person:
    return Person(driven.url, driven.ben, monkeypatch, capsys)


def asking(command: Any, *words: str) -> Iterator[str]:
    """Every command, from this one on, that asks a driver."""
    if any(each.name == "url" for each in command.params):
        yield " ".join(words)
    for name, below in getattr(command, "commands", {}).items():
        yield from asking(below, *words, name)


def test_no_command_that_asks_a_driver_is_left_out_here() -> None:
    assert set(asking(typer.main.get_command(app))) == set(TYPED)


# ---------------------------------------------------------------- who may not


@pytest.mark.parametrize("words", TYPED.values(), ids=list(TYPED))
def test_whom_the_api_server_does_not_let_is_told_so_with_the_role_to_bind(
    ben: Person, words: str
) -> None:
    said = ben.refused(words)
    assert "Bind " in said
    if words not in (TYPED["why"], TYPED["fact"]):  # it may mean a job or a node
        assert f"{BEN} may not " in said


@pytest.mark.parametrize("words", TYPED.values(), ids=list(TYPED))
def test_who_has_no_token_is_told_how_to_have_one(
    driven: Typed,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
) -> None:
    nobody = Person(driven.url, "", monkeypatch, capsys)
    stranger = Person(driven.url, "x" * 30, monkeypatch, capsys)
    for each in (nobody, stranger):
        said = each.refused(words)
        assert "HOLDFAST_TOKEN" in said
        assert "kubectl create token NAME" in said


# ---------------------------------------------------------------- who may


def test_a_person_has_a_job_run_looks_at_it_and_ends_it(plane: ControlPlane, ada: Person) -> None:
    said = ada.gets("submit job.yaml").splitlines()[0]
    assert said == "speech submitted; TrainingJob speech is there"
    assert ada.refused("submit job.yaml").startswith(
        'nothing was submitted: trainingjobs.holdfast.dev "speech" already exists.  Choose another'
    )
    ada.until("Running")
    header, row = ada.gets("jobs").splitlines()
    assert (header.split()[:2], row.split()[:2]) == (["NAME", "STATE"], ["speech", "Running"])
    assert "■ node-1  ■ node-2" in ada.gets("status")
    assert "speech gets node-1, node-2" in ada.gets("story speech")
    assert ada.gets("why speech").startswith("speech has been Running since ")
    assert ada.gets("why node-1").startswith("node-1 works for speech\n")
    eventually(lambda: "step" in ada.gets("logs speech --tail 1"), "it has written")

    assert ada.gets("suspend speech").startswith("speech is being suspended: ")
    ada.until("Suspended")
    assert wanted(plane)["spec"]["suspend"] is True
    assert ada.gets("resume speech").startswith("speech goes on once it has nodes: ")
    ada.until("Running")

    assert ada.gets("stop speech") == "a person wants speech stopped\n"
    ada.until("Stopped")
    eventually(lambda: wanted(plane)["status"]["phase"] == "Stopped", "its object says so")
    assert wanted(plane)["status"]["ready"] == "0/2"
    assert ada.refused("resume speech").startswith("job: 'speech' is Stopped and stays so. ")
    assert ada.gets("delete speech") == "speech is being deleted\n"
    eventually(lambda: not wanted(plane), "its object is gone")
    eventually(lambda: ada.gets("jobs") == "no jobs\n", "the driver has heard of it")
    assert ada.refused("delete speech").startswith(
        'trainingjobs.holdfast.dev "speech" not found.  What there is: holdfast jobs'
    )
    assert ada.refused("status speech").startswith("there is no job 'speech'.")


def wanted(plane: ControlPlane) -> dict[str, Any]:
    return plane.read(paths.training_jobs(NAMESPACE, "speech"))


def test_a_person_keeps_nodes_from_work_and_gives_them_back(ada: Person) -> None:
    assert "node-3  free" in ada.gets("nodes")
    assert "it is free now" in ada.gets("nodes maintain node-3 --reason kernel")
    assert "maintenance" in ada.gets("nodes list")
    assert "a person wants node-3 used again" in ada.gets("restore node-3 --reason booted")
    assert "node-3" in ada.gets("evict node-3 --reason loud")
    assert "quarantined" in ada.gets("nodes")
    assert "a person wants node-3 used again" in ada.gets("nodes restore node-3 --reason quiet")


def test_a_person_puts_the_brake_on_and_releases_it(ada: Person) -> None:
    assert ada.gets("brake") == "the brake is off\n"
    assert "nobody is evicted any more (a person: rewired)" in ada.gets(TYPED["brake apply"])
    assert ada.gets("brake").startswith("the brake is on: a person: rewired\n")
    assert "the brake is released" in ada.gets(TYPED["brake release"])


def test_another_namespace_than_the_drivers_is_refused_by_it(ada: Person, file: Path) -> None:
    file.write_text(file.read_text().replace(f"namespace: {NAMESPACE}", "namespace: elsewhere"))
    answer = ada.types("submit job.yaml")
    assert answer.code == exitcodes.USAGE
    assert answer.err == (
        "holdfast: nothing was submitted: metadata.namespace: 'elsewhere' is not this driver's.  "
        f"Its namespace is {NAMESPACE}; leave it out.\n"
    )
