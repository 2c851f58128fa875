"""What is not evicted is not marked either: nothing of ours is written to its Node.

Drivers on a real API server, with nodes without machines. A problem detector says of a node that a
job has that a GPU is missing, with the brake on and in a dry run: it is said what would be done.
That marks are written at all is seen each time at another node, which a person evicts, and at the
same one later.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from operated import Operated, operated
from running_driver import DriverProcess
from waiting import eventually

from holdfast.driver.adapters.kubernetes import names
from holdfast.driver.core.effects import Distrust
from holdfast.kubeapi import paths
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = pytest.mark.kubernetes

Object = dict[str, Any]

NODES = 4
"""So that one that a person evicts and one more are not half of them."""


class Detected:
    """A driver with its nodes, a person who asks it, and a problem detector on each node."""

    def __init__(self, driven: Operated) -> None:
        self.driven = driven
        self.plane = driven.plane
        self.since_bytes = driven.plane.audit_log.stat().st_size

    def problem(self, node: str, says: str) -> None:
        """As a problem detector says it."""
        told = {"type": "GPUMissing", "status": "True", "reason": "Count", "message": says}
        patch = json.dumps({"status": {"conditions": [told]}})
        self.plane.kubectl("patch", "node", node, "--subresource=status", "-p", patch)

    def ask(self, what: str, reason: str = "") -> Object:
        """By REST, with the driver's own token; with a reason it is posted."""
        token = self.driven.driver.paths.user_token.read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        at = f"{self.driven.url()}/v1alpha1/{what}"
        with httpx.Client(trust_env=False, verify=False, headers=headers, timeout=60) as person:
            answer = person.post(at, json={"reason": reason}) if reason else person.get(at)
        found: Object = answer.raise_for_status().json()
        return found

    def node_of(self, job: str) -> str:
        """Where the one pod of the job is, once it is on a node."""
        (pod,) = self.driven.bound(job, 1)
        node: str = pod["spec"]["nodeName"]
        return node

    def left_for(self, job: str, node: str) -> str:
        """Where the one pod of the job is, once it is on another node."""

        def elsewhere() -> str:
            now = self.node_of(job)
            return "" if now == node else now

        return eventually(elsewhere, f"{job} has left {node}")

    def whys(self) -> list[str]:
        """Of the journal."""
        return [entry.why for entry in self.driven.driver.journal()]

    def until_decided(self, what: str) -> None:
        eventually(lambda: any(what in why for why in self.whys()), f"it is decided: {what}")

    def marks(self, node: str) -> list[str]:
        """All of ours that this Node has."""
        found = self.plane.read(paths.nodes(node))
        taints = [each["key"] for each in found["spec"].get("taints", ())]
        said = [each["type"] for each in found["status"]["conditions"]]
        annotated = found["metadata"].get("annotations", {})
        ours = {names.TAINT, names.CONDITION, *names.MARKS}
        return sorted(ours & {*taints, *said, *annotated})

    def until_marked(self, node: str) -> None:
        """With all marks: the taint comes last."""
        every = sorted((names.TAINT, names.CONDITION, *names.MARKS))
        eventually(lambda: self.marks(node) == every, f"{node} has all its marks")

    def evicted_by_a_person(self, *but: str) -> str:
        """Another node, once it has all its marks: whatever was to be marked before it has been."""
        called = (f"{self.driven.namespace}-{number + 1}" for number in range(NODES))
        node = next(each for each in called if each not in but and not self.marks(each))
        self.ask(f"nodes/{node}/evict", "to be repaired")
        self.until_marked(node)
        return node

    def distrusted(self) -> list[str]:
        """Nodes that the journal wanted marked, each once: what was under way as a driver was
        killed is wanted anew.
        """
        entries = self.driven.driver.journal()
        effects = [effect for entry in entries for effect in entry.effects]
        return [*dict.fromkeys(each.node for each in effects if isinstance(each, Distrust))]

    def written_to(self, node: str) -> list[str]:
        """By drivers, as the audit log has it."""
        return [
            each["requestURI"]
            for each in self.plane.audit(self.since_bytes)
            if each["verb"] not in ("get", "list", "watch")
            and each.get("objectRef", {}).get("resource") == "nodes"
            and each["objectRef"].get("name") == node
            and each["userAgent"].startswith("holdfast-driver")
        ]


@pytest.fixture
def braked(crd: ControlPlane, tmp_path: Path) -> Iterator[Detected]:
    with operated(crd, tmp_path, name="braked", nodes=NODES) as driven:
        yield Detected(driven)


@pytest.fixture
def dry(crd: ControlPlane, tmp_path: Path) -> Iterator[Detected]:
    with operated(crd, tmp_path, "--dry-run-evictions", name="dry", nodes=NODES) as driven:
        yield Detected(driven)


def test_with_the_brake_on_a_bad_node_loses_its_job_and_gets_no_mark_until_it_is_released(
    braked: Detected,
) -> None:
    braked.driven.apply("held", nodes=1)
    bad = braked.node_of("held")
    braked.ask("brake/apply", "we rewire")
    braked.problem(bad, "7 of 8")
    braked.until_decided(f"{bad} would be evicted and is only left out: the brake is on")
    other = braked.left_for("held", bad)
    person = braked.evicted_by_a_person(bad, other)
    assert (braked.marks(bad), braked.written_to(bad)) == ([], [])
    assert braked.distrusted() == [person]
    assert braked.written_to(person) != [], "the audit log shows what is written"

    brake = braked.ask("brake")
    assert (brake["on"], brake["why"]) == (True, "a person: we rewire")
    why = f"it would be evicted (the cluster says of {bad}: GPUMissing is True: 7 of 8), but "
    assert braked.ask(f"nodes/{bad}")["reason"] == f"{why}the brake is on: a person: we rewire"
    assert f"{bad} would be evicted" in json.dumps(braked.ask("jobs/held/story"))
    told = {"BrakeApplied", "NodeProblem"}
    eventually(lambda: told <= set(events_of(braked, "held")), "its Events say so")

    braked.ask("brake/release", "it is rewired")
    braked.until_marked(bad)
    assert braked.distrusted() == [person, bad]


def events_of(detected: Detected, job: str) -> list[str]:
    """Reasons of the Events of its object."""
    events = detected.plane.read(paths.events(detected.driven.namespace))["items"]
    return [each["reason"] for each in events if each["regarding"]["name"] == job]


def test_a_dry_run_says_what_it_would_evict_and_a_driver_after_it_does_so(dry: Detected) -> None:
    dry.driven.apply("held", nodes=1)
    bad = dry.node_of("held")
    dry.problem(bad, "7 of 8")
    dry.until_decided(f"{bad} would be evicted and is only left out: this driver only says")
    other = dry.left_for("held", bad)
    person = dry.evicted_by_a_person(bad, other)
    assert (dry.marks(bad), dry.written_to(bad)) == ([], [])
    assert dry.distrusted() == [person]
    brake = dry.ask("brake")
    assert (brake["on"], brake["dry_run"]) == (False, True)
    assert "but this driver only says what it would evict" in dry.ask(f"nodes/{bad}")["reason"]

    dry.driven.kill()
    dry.driven.driver = in_earnest(dry)
    dry.driven.start()
    dry.until_marked(bad)
    assert dry.distrusted() == [person, bad]


def in_earnest(dry: Detected) -> DriverProcess:
    """A driver on the same state that evicts."""
    name, config = dry.driven.namespace, str(dry.plane.admin)
    words = ["--cluster", "kubernetes", "--kubeconfig", config, "--namespace", name]
    return DriverProcess(dry.driven.driver.paths.root, *words, "--node-selector", f"made={name}")
