"""deploy/kubernetes as it is shipped, running: two drivers in pods, with TLS, one leads.

One test plays it, the others read what it left: the leader's pod is deleted and it is replaced,
both are rolled, the API server is away while a rank and then a node are lost. The job goes on
through all of it.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from postgres import running_postgres
from shipped_driver import DRIVER
from shipped_pair import DEPLOYMENT, Pair, apply_job, shipped_pair
from waiting import eventually

from holdfast.driver.adapters.kubernetes import facts
from holdfast.driver.ports import Entry
from holdfast.kubeapi import paths
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = [pytest.mark.kubernetes, pytest.mark.cluster, pytest.mark.slow]

ACTED = re.compile(r"holdfast-driver \(term=(\d+) entry=(\d+) ")

JOB = "led"
SHARED = "/run/shared"
TRAIN = f"""
import os, sys, time
rank, shared = os.environ["RANK"], "{SHARED}"
with open(f"{{shared}}/life-{{rank}}", "w") as file:
    file.write(f"{{os.getpid()}} {{time.monotonic_ns()}}")
step = 0
while not os.path.exists(f"{{shared}}/over"):
    print(step := step + 1, flush=True)
    if os.path.exists(f"{{shared}}/kill-{{rank}}"):
        os.remove(f"{{shared}}/kill-{{rank}}")
        os.kill(os.getpid(), 9)
    time.sleep(0.1)
"""


class Left(NamedTuple):
    """What the play left. `lives`: of the ranks, after each of its scenes; `distrusted`: nodes,
    once there are any; `acted`: term and sequence of entries that writes to the API server were
    for; `audited`: what drivers asked it until it was stopped, for one that starts allows nothing
    yet.
    """

    leaders: list[str]
    lives: dict[str, tuple[str, ...]]
    unplugged: str
    distrusted: list[str]
    status: dict[str, Any]
    entries: list[Entry]
    acted: set[tuple[int, int]]
    audited: list[dict[str, Any]]


class Play:
    """The job, as a person sees it."""

    def __init__(self, pair: Pair, shared: Path) -> None:
        self.pair = pair
        self._shared = shared

    def apply(self) -> None:
        volume = {
            "name": "shared", "mountPath": SHARED, "hostPath": {"path": str(self._shared)},
        }  # fmt: skip
        spec: dict[str, Any] = {"nodes": 2, "ranksPerNode": 1, "standbys": 1}
        spec["command"] = ["python", "-u", "-c", TRAIN]
        spec["pod"] = {"image": "holdfast-executor:1", "volumes": [volume]}
        apply_job(self.pair.plane, JOB, **spec)

    def tell(self, name: str) -> None:
        """The ranks look for such files."""
        (self._shared / name).touch()

    def lives(self) -> tuple[str, ...]:
        """Of both ranks; shorter while one has not begun."""
        found = sorted(self._shared.glob("life-*"))
        return tuple(filter(None, (each.read_text() for each in found)))

    def new_lives(self, since: tuple[str, ...]) -> tuple[str, ...]:
        """Once all ranks have begun again."""

        def begun() -> tuple[str, ...]:
            now = self.lives()
            return now if len(now) == 2 and not set(now) & set(since) else ()

        return eventually(begun, "all ranks begin again")

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.pair.read(paths.training_jobs("default", JOB))
        return dict(found.get("status", {}))


@pytest.fixture(scope="module")
def play(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    folder = tmp_path_factory.mktemp("ha")
    (shared := folder / "shared").mkdir()
    with running_postgres() as server, shipped_pair(plane, folder, server, nodes=3) as pair:
        yield Play(pair, shared)
    plane.renew()


@pytest.fixture(scope="module")
def since_bytes(plane: ControlPlane) -> int:
    """Where this play begins in the audit log, which is that of all tests."""
    return plane.audit_log.stat().st_size


def drivers_asked(pair: Pair, since_bytes: int) -> list[dict[str, Any]]:
    """By the audit log."""
    audited = pair.plane.audit(since_bytes)
    return [each for each in audited if each["user"].get("username") == DRIVER]


@pytest.fixture(scope="module")
def left(since_bytes: int, play: Play) -> Left:
    pair, leaders, lives = play.pair, [], {}
    eventually(lambda: len(pair.ready()) == 2, "both drivers are Ready")
    leaders.append(pair.another())
    play.apply()
    eventually(lambda: play.status().get("phase") == "Running", "it runs")
    lives["at first"] = play.new_lives(())

    term = pair.newest_term()
    pair.kubectl("delete", "pod", leaders[0], "--wait=false")
    leaders.append(pair.another(*leaders))
    pair.under(term, pair.nodes.names)
    lives["leader deleted"] = play.lives()

    term = pair.newest_term()
    pair.kubectl("rollout", "restart", DEPLOYMENT)
    pair.rolled_out()
    leaders.append(pair.another(*leaders))
    pair.under(term, pair.nodes.names)
    lives["rolled"] = play.lives()

    leads_on, status = pair.node_of(leaders[-1]), play.status()
    unplugged = next(node for node in status["nodes"] if node != leads_on)
    audited = drivers_asked(pair, since_bytes)
    pair.plane.stop("kube-apiserver")
    try:
        play.tell("kill-0")
        lives["a rank killed"] = play.new_lives(lives["rolled"])
        pair.nodes.unplug(unplugged)
        lives["a node unplugged"] = play.new_lives(lives["a rank killed"])
    finally:
        pair.plane.start("kube-apiserver")
    play.tell("over")
    eventually(lambda: play.status().get("phase") in ("Succeeded", "Failed"), "it ends")
    distrusted = eventually(lambda: _distrusted(pair), "a node is distrusted")
    whole = drivers_asked(pair, since_bytes)
    acted = {
        (int(said[1]), int(said[2])) for each in whole if (said := ACTED.match(each["userAgent"]))
    }
    status, entries = play.status(), pair.entries()
    return Left(leaders, lives, unplugged, distrusted, status, entries, acted, audited)


def _distrusted(pair: Pair) -> list[str]:
    """Nodes of ours that have the taint."""
    found = {node: pair.plane.read(paths.nodes(node)) for node in pair.nodes.names}
    return [node for node, seen in found.items() if facts.distrust_of(seen) is not None]


def test_the_leader_is_replaced_and_the_ranks_do_not_notice(left: Left) -> None:
    assert len(set(left.leaders)) == 3
    assert left.lives["leader deleted"] == left.lives["at first"]
    assert left.lives["rolled"] == left.lives["at first"]


def test_no_term_writes_after_a_later_one(left: Left) -> None:
    terms = [each.term for each in left.entries]
    assert terms == sorted(terms)
    assert len(set(terms)) >= 3


def test_no_number_is_given_twice_whoever_acts_on_an_entry_wrote_it_down(left: Left) -> None:
    """A driver that gave a number which is another's now would have acted on what is no entry."""
    written = {(each.term, each.sequence) for each in left.entries}
    first, *later = sorted({term for term, _ in left.acted})
    assert first == left.entries[0].term
    assert later, "and a later leader acted, too; the last may have found nothing left to do"
    assert left.acted - written == set()


def test_without_an_api_server_ranks_begin_again_in_place_and_on_a_standby(left: Left) -> None:
    assert len(left.lives["a rank killed"]) == len(left.lives["a node unplugged"]) == 2
    assert left.status["phase"] == "Succeeded"
    assert left.status["restarts"] == 2
    assert left.distrusted == [left.unplugged], left.status["incident"]


def test_of_leases_each_granted_verb_is_used_on_that_one_name(left: Left) -> None:
    asked = [each for each in left.audited if each["objectRef"]["resource"] == "leases"]
    assert {each["objectRef"]["name"] for each in asked} == {"holdfast-driver"}
    assert {each["verb"] for each in asked} == {"get", "update"}
    made = [each for each in asked if each["responseStatus"]["code"] == 201]
    assert made, "an update that makes it needs the right to create"


def test_in_its_pod_the_driver_is_refused_nothing(left: Left) -> None:
    forbidden = [
        (each["verb"], each["requestURI"])
        for each in left.audited
        if each.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
    ]
    assert forbidden == []
