"""The script for kind, where docker, kind, kubectl and Holdfast only write down who calls them.

That it works with the real ones is not shown here: there is no container runtime.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UP = ROOT / "deploy" / "kind" / "up.sh"
FAKES = ("docker", "kind", "kubectl", "holdfast")
FAKE = """\
#!/bin/bash
echo "${{0##*/}} $*" >> {calls}
[ "$*" != "get clusters" ] || echo {there}
[ "${{*:1:2}}" != "get kubeconfig" ] || echo "of ${{*: -1}}"
[[ "$*" != *" get deployment "* || "$*" == *" {there}" ]]
"""
DRIVERS = "deployment/holdfast-driver"


class Machine:
    """A checkout with the script in it, and programs that do nothing."""

    def __init__(self, folder: Path) -> None:
        self._calls = folder / "calls"
        self.script = folder / "deploy" / "kind" / "up.sh"
        self.script.parent.mkdir(parents=True)
        self.script.write_bytes(UP.read_bytes())
        self._programs = folder / "programs"
        self._programs.mkdir()
        for name in FAKES:
            self.put(name)

    def put(self, name: str, there: str = "other") -> None:
        file = self._programs / name
        file.write_text(FAKE.format(calls=self._calls, there=there))
        file.chmod(0o700)

    def lacks(self, name: str) -> None:
        (self._programs / name).unlink()

    def up(self, *words: str) -> "subprocess.CompletedProcess[str]":
        environment = {
            "PATH": f"{self._programs}:/usr/bin:/bin",
            "HOLDFAST": str(self._programs / "holdfast"),
        }
        command = ["bash", str(self.script), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def calls(self, *programs: str) -> list[str]:
        """How these were called, in order."""
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        return [line for line in lines if line.partition(" ")[0] in programs]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


CHAOS = "deploy/kind/kubeconfig-holdfast-chaos"
AT = f"--cluster kubernetes --kubeconfig {CHAOS}"


@pytest.mark.parametrize(
    ("words", "called"),
    [
        (["chaos", "node-lost", "43"], f"holdfast chaos run node-lost 43 {AT}"),
        (["chaos"], f"holdfast chaos run all {AT}"),
        (["demo"], f"holdfast demo {AT}"),
    ],
)
def test_scenarios_are_played_on_a_cluster_of_their_own_without_images(
    machine: Machine, words: list[str], called: str
) -> None:
    done = machine.up(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert machine.calls("holdfast", "docker", "kubectl") == [called]
    assert "kind create cluster --name holdfast-chaos --wait 120s" in machine.calls("kind")
    kubeconfig = machine.script.with_name("kubeconfig-holdfast-chaos")
    assert kubeconfig.read_text() == "of holdfast-chaos\n"
    assert kubeconfig.stat().st_mode & 0o077 == 0


def test_a_cluster_that_is_there_is_used_again(machine: Machine) -> None:
    machine.put("kind", there="holdfast-chaos")
    assert machine.up("demo").returncode == 0
    assert [call for call in machine.calls("kind") if "create" in call] == []


def test_without_words_images_are_built_and_two_drivers_installed(machine: Machine) -> None:
    done = machine.up()
    assert (done.returncode, done.stderr) == (0, "")
    assert machine.calls("holdfast") == []
    built = [call for call in machine.calls("docker") if call.startswith("docker build")]
    assert len(built) == 2
    made = "kind create cluster --name holdfast --config deploy/kind/cluster.yaml --wait 120s"
    assert made in machine.calls("kind")
    (applied,) = [call for call in machine.calls("kubectl") if " apply " in call]
    assert applied.endswith("-k deploy/kubernetes/overlays/trial-database")
    assert not [call for call in machine.calls("kubectl") if "rollout restart" in call]


def test_again_drivers_that_are_there_begin_anew_with_the_new_image(machine: Machine) -> None:
    """Its tag is the same one, so applying changes nothing."""
    machine.put("kind", there="holdfast")
    machine.put("kubectl", there="holdfast-driver")
    done = machine.up()
    assert (done.returncode, done.stderr) == (0, "")
    calls = machine.calls("kubectl")
    within = "kubectl --context kind-holdfast -n holdfast"
    restarted = calls.index(f"{within} rollout restart {DRIVERS}")
    assert restarted < calls.index(f"{within} rollout status {DRIVERS} --timeout=180s")
    assert restarted > next(place for place, call in enumerate(calls) if " apply " in call)


def test_what_is_not_installed_or_not_known_is_said(machine: Machine) -> None:
    wrong = machine.up("chaso")
    assert (wrong.returncode, wrong.stderr.startswith("usage: deploy/kind/up.sh")) == (2, True)
    machine.lacks("kind")
    lacking = machine.up("demo")
    assert (lacking.returncode, lacking.stderr) == (69, "kind is not installed\n")
    assert machine.calls(*FAKES) == []


def test_the_script_can_be_started_and_names_what_there_is() -> None:
    assert os.access(UP, os.X_OK)
    named = re.findall(r"(?<![\w/])deploy/[\w./-]+", UP.read_text())
    files = {each for each in named if "kubeconfig" not in each}
    assert len(files) > 3
    for each in files:
        assert (ROOT / each.rstrip(".")).exists(), each


def test_admins_of_these_clusters_stay_out_of_images_and_commits() -> None:
    def ignored(file: str) -> list[str]:
        return [line.lstrip("/") for line in (ROOT / file).read_text().splitlines()]

    assert "deploy/kind/kubeconfig-*" in ignored(".gitignore")
    assert "deploy" in ignored(".dockerignore")
    assert not [line for line in ignored(".dockerignore") if line.startswith("!deploy/kind")]
