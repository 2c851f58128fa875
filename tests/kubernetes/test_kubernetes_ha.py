"""deploy/kubernetes as it is shipped, running: two drivers in pods, with TLS, one leads.

One test plays it, the others read what it left: the leader's pod is deleted and it is replaced,
both are rolled, the API server is away while a rank and then a node are lost. The job goes on
through all of it.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from postgres import Postgres, running_postgres
from waiting import eventually

from holdfast.driver.adapters.journal import SqlJournal
from holdfast.driver.adapters.journal_postgres import open_postgres
from holdfast.driver.adapters.kubernetes import paths
from holdfast.driver.core.events import ExecutorConnected
from holdfast.driver.ports import Entry
from holdfast.lab.emulator.kubelet.joined import Joined
from holdfast.lab.emulator.namespaces import Kind, best_kind
from holdfast.lab.emulator.nodes import SWITCH_ADDRESS
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = [pytest.mark.kubernetes, pytest.mark.cluster, pytest.mark.slow]

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
DRIVER = "system:serviceaccount:holdfast:holdfast-driver"
OURS = ("-n", "holdfast")

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
    """What the play left. `lives`: of the ranks, after each of its scenes; `audited`: until the
    API server was stopped, for one that starts allows nothing yet.
    """

    leaders: list[str]
    lives: dict[str, tuple[str, ...]]
    unplugged: str
    status: dict[str, Any]
    entries: list[Entry]
    audited: list[dict[str, Any]]


class Play:
    """The cluster with the two drivers, as a person sees it."""

    def __init__(self, plane: ControlPlane, nodes: Joined, shared: Path) -> None:
        self.plane = plane
        self.nodes = nodes
        self._shared = shared

    def apply(self) -> None:
        volume = {
            "name": "shared", "mountPath": SHARED, "hostPath": {"path": str(self._shared)},
        }  # fmt: skip
        spec = {"nodes": 2, "ranksPerNode": 1, "standbys": 1}
        spec["command"] = ["python", "-u", "-c", TRAIN]
        spec["pod"] = {"image": "holdfast-executor:1", "volumes": [volume]}
        document = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "TrainingJob"}
        document |= {"metadata": {"name": JOB}, "spec": spec}
        self.plane.kubectl("apply", "-f", "-", input=json.dumps(document))

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

    def _read(self, path: str) -> dict[str, Any]:
        """Nothing, too, where the API server does not answer in time."""
        try:
            return self.plane.read(path)
        except httpx.TransportError:
            return {}

    def ready(self) -> list[str]:
        """Pods of drivers that are Ready and stay."""
        listed = f"{paths.pods('holdfast')}?labelSelector=app.kubernetes.io/component=driver"
        return [
            pod["metadata"]["name"]
            for pod in self._read(listed).get("items", ())
            if "deletionTimestamp" not in pod["metadata"]
            for condition in pod["status"].get("conditions", ())
            if (condition["type"], condition["status"]) == ("Ready", "True")
        ]

    def leader(self) -> str:
        """The pod that has the Lease."""
        lease = self._read(paths.leases("holdfast", "holdfast-driver"))
        return str(lease.get("spec", {}).get("holderIdentity") or "").partition(" at ")[0]

    def node_of(self, pod: str) -> str:
        return str(self.plane.read(paths.pods("holdfast", pod))["spec"]["nodeName"])

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self._read(paths.training_jobs("default", JOB))
        return dict(found.get("status", {}))

    def under(self, journal: "Terms", term: int) -> None:
        """Wait until every executor is with a driver of a later term."""
        eventually(lambda: journal.connected(term) >= set(self.nodes.names), "all are connected")


class Terms:
    """The journal, beside the drivers."""

    def __init__(self, journal: SqlJournal) -> None:
        self._journal = journal
        self._read: list[Entry] = []

    def newest(self) -> int:
        entries = self.entries()
        return entries[-1].term if entries else 0

    def connected(self, beyond: int) -> set[str]:
        """Nodes whose executors have connected in a term later than `beyond`."""
        later = [each.event for each in self.entries() if each.term > beyond]
        return {event.node for event in later if isinstance(event, ExecutorConnected)}

    def entries(self) -> list[Entry]:
        self._read += self._journal.entries(after=self._read[-1].sequence if self._read else 0)
        return self._read


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def journal(database: Postgres) -> Iterator[Terms]:
    opened = open_postgres(database.url(database.new_database()))
    yield Terms(opened)
    opened.close()


@pytest.fixture(scope="module")
def play(
    plane: ControlPlane,
    database: Postgres,
    journal: Terms,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Play]:
    """Three nodes; `kubectl apply -k deploy/kubernetes`, and the Secret that a person makes."""
    if best_kind()[0] is Kind.LOOPBACK:
        pytest.skip(f"no namespaces here: {best_kind()[1]}")
    folder = tmp_path_factory.mktemp("ha")
    (shared := folder / "shared").mkdir()
    plane.kubectl("apply", "-k", str(DEPLOY))
    url = f"postgresql://holdfast@{SWITCH_ADDRESS}/holdfast_1"
    secret = (f"--from-literal=url={url}", f"--from-literal=password={database.password}")
    plane.kubectl(*OURS, "create", "secret", "generic", "holdfast-journal", *secret)
    more = ["--lease-s", "4", "--way", f"5432=127.0.0.1:{database.port}"]
    with Joined(plane, folder / "nodes", nodes=3, more=more) as nodes:
        try:
            yield Play(plane, nodes, shared)
        finally:
            plane.kubectl("delete", "tj", "--all", "--wait=false")
            what = ("deployment,service,pdb,secret", "--all", "--wait=false")
            plane.kubectl(*OURS, "delete", *what)
            now = ("--force", "--grace-period=0", "--wait=false")
            plane.kubectl(*OURS, "delete", "pods", "--all", *now)
            plane.kubectl("delete", "pods", "-l", f"holdfast.dev/job={JOB}", *now)
    plane.kubectl(*OURS, "delete", "lease", "--all")  # no driver is left to make it again
    left = nodes.leftovers()
    assert left.count == 0, left


@pytest.fixture(scope="module")
def since_bytes(plane: ControlPlane) -> int:
    """Where this play begins in the audit log, which is that of all tests."""
    return plane.audit_log.stat().st_size


@pytest.fixture(scope="module")
def left(since_bytes: int, play: Play, journal: Terms) -> Left:
    leaders, lives = [], {}
    eventually(lambda: len(play.ready()) == 2, "both drivers are Ready")
    leaders.append(eventually(play.leader, "one of them leads"))
    play.apply()
    eventually(lambda: play.status().get("phase") == "Running", "it runs")
    lives["at first"] = play.new_lives(())

    term = journal.newest()
    play.plane.kubectl(*OURS, "delete", "pod", leaders[0], "--wait=false")
    leaders.append(eventually(lambda: _another(play, leaders), "another leads"))
    play.under(journal, term)
    lives["leader deleted"] = play.lives()

    term = journal.newest()
    play.plane.kubectl(*OURS, "rollout", "restart", "deployment/holdfast-driver")
    words = ("rollout", "status", "deployment/holdfast-driver", "--timeout=110s")
    play.plane.kubectl(*OURS, *words, within_s=120.0)
    leaders.append(eventually(lambda: _another(play, leaders), "another leads"))
    play.under(journal, term)
    lives["rolled"] = play.lives()

    leads_on, status = play.node_of(leaders[-1]), play.status()
    unplugged = next(node for node in status["nodes"] if node != leads_on)
    audited = play.plane.audit(since_bytes)
    used = [each for each in audited if each["user"].get("username") == DRIVER]
    play.plane.stop("kube-apiserver")
    try:
        play.tell("kill-0")
        lives["a rank killed"] = play.new_lives(lives["rolled"])
        play.nodes.unplug(unplugged)
        lives["a node unplugged"] = play.new_lives(lives["a rank killed"])
    finally:
        play.plane.start("kube-apiserver")
    play.tell("over")
    eventually(lambda: play.status().get("phase") in ("Succeeded", "Failed"), "it ends")
    return Left(leaders, lives, unplugged, play.status(), journal.entries(), used)


def _another(play: Play, before: list[str]) -> str:
    return found if (found := play.leader()) not in ("", *before) else ""


def test_the_leader_is_replaced_and_the_ranks_do_not_notice(left: Left) -> None:
    assert len(set(left.leaders)) == 3
    assert left.lives["leader deleted"] == left.lives["at first"]
    assert left.lives["rolled"] == left.lives["at first"]


def test_no_term_writes_after_a_later_one_and_no_number_is_given_twice(left: Left) -> None:
    terms = [each.term for each in left.entries]
    assert terms == sorted(terms)
    assert len(set(terms)) >= 3
    assert Counter(each.sequence for each in left.entries).most_common(1)[0][1] == 1


def test_without_an_api_server_ranks_begin_again_in_place_and_on_a_standby(left: Left) -> None:
    assert len(left.lives["a rank killed"]) == len(left.lives["a node unplugged"]) == 2
    assert left.status["phase"] == "Succeeded"
    assert left.status["restarts"] == 2
    assert left.status["incident"]["evicted"] == [left.unplugged]


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
        if each["annotations"]["authorization.k8s.io/decision"] == "forbid"
    ]
    assert forbidden == []
