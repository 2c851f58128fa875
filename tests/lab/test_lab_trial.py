"""A node that was lost, evicted and comes back is tested by its real executor, and used again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import DEADLINE_S

from holdfast.lab.cluster import Lab
from holdfast.lab.emulator.inside import in_switch
from holdfast.lab.emulator.namespaces import Kind, best_kind

pytestmark = [pytest.mark.cluster, pytest.mark.torch, pytest.mark.timeout(400)]

JOB = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "sleeper"},
    "spec": {
        "nodes": 1,
        "ranksPerNode": 1,
        "command": ["/bin/sleep", "1000"],
        "workdir": "/tmp",
    },
}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    if best_kind()[0] is Kind.LOOPBACK:
        pytest.skip(f"no namespaces here: {best_kind()[1]}")
    monkeypatch.setenv("HOLDFAST_DRIVER_TRIAL_AFTER_S", "1")
    laboratory = Lab(tmp_path / "lab", nodes=2)
    with laboratory:
        laboratory.ready(within_s=DEADLINE_S)
        yield laboratory
    assert laboratory.leftovers().count == 0, laboratory.leftovers()


def link(lab: Lab, node: str, state: str) -> None:
    known = lab.state()
    assert known is not None
    in_switch(known, "ip", "link", "set", known.nodes[node].switch_interface, state)


def node_of(lab: Lab, name: str) -> dict[str, Any]:
    return next(each for each in lab.nodes() if each["name"] == name)


def test_a_node_whose_link_was_cut_and_mended_is_tested_and_trusted_again(lab: Lab) -> None:
    job = lab.submit(JOB)
    lab.wait(job, lambda job: job["phase"] == "Running", within_s=DEADLINE_S)
    lost = next(each["name"] for each in lab.nodes() if each["job"] == job)
    link(lab, lost, "down")
    lab.until(lambda: node_of(lab, lost)["state"] == "quarantined", "it is evicted", DEADLINE_S)
    lab.wait(job, lambda job: job["phase"] == "Running", within_s=DEADLINE_S)
    assert node_of(lab, lost)["next_trial_s"] > 0
    incidents = len(lab.incidents(job))
    link(lab, lost, "up")
    lab.until(lambda: node_of(lab, lost)["state"] == "free", "it is free again", DEADLINE_S)
    why = lab.ask("GET", f"/nodes/{lost}/why")
    told = " ".join(line["text"] for line in why["lines"])
    assert f"{lost} is tested, which" in told
    assert f"{lost} passed its tests and is trusted again" in told
    assert "GFLOP/s" in told
    assert len(lab.incidents(job)) == incidents
    assert lab.job(job)["phase"] == "Running"
