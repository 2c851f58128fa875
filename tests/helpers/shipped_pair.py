"""deploy/kubernetes as it is shipped, running on emulated nodes: two drivers in pods, one leads.

Used by tests of their life. Their journal is in a PostgreSQL of the tests, which is read here
beside them, of whatever version they are.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psycopg
import pytest
from deployed import DEPLOY
from postgres import Postgres
from waiting import eventually

from holdfast.driver.core.events import ExecutorConnected
from holdfast.driver.ports import Entry
from holdfast.kubeapi import paths
from holdfast.lab.emulator.kubelet.joined import Joined
from holdfast.lab.emulator.namespaces import Kind, best_kind
from holdfast.lab.emulator.nodes import SWITCH_ADDRESS
from holdfast.lab.kubernetes.plane import ControlPlane

OURS = ("-n", "holdfast")
NOW = ("--force", "--grace-period=0", "--wait=false")
DEPLOYMENT = "deployment/holdfast-driver"
DRIVERS = f"{paths.pods('holdfast')}?labelSelector=app.kubernetes.io/component=driver"

_decode = msgspec.json.Decoder(Entry).decode


class Pair:
    """The cluster with its two drivers, as a person sees them."""

    def __init__(self, plane: ControlPlane, nodes: Joined, postgres: Postgres, name: str) -> None:
        self.plane = plane
        self.nodes = nodes
        self.postgres = postgres
        self.database = name

    def kubectl(self, *words: str) -> str:
        """In the drivers' namespace."""
        return self.plane.kubectl(*OURS, *words)

    def read(self, path: str) -> dict[str, Any]:
        """Nothing, too, where the API server does not answer in time."""
        try:
            return self.plane.read(path)
        except httpx.TransportError:
            return {}

    def drivers(self) -> list[dict[str, Any]]:
        """Their pods that stay."""
        items = self.read(DRIVERS).get("items", ())
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    def ready(self, image: str = "") -> list[str]:
        """Pods of drivers, or of those of an image, that are Ready and stay."""
        return [
            pod["metadata"]["name"]
            for pod in self.drivers()
            if image in pod["spec"]["containers"][0]["image"]
            for condition in pod["status"].get("conditions", ())
            if (condition["type"], condition["status"]) == ("Ready", "True")
        ]

    def leader(self) -> str:
        """The pod that has the Lease."""
        lease = self.read(paths.leases("holdfast", "holdfast-driver"))
        return str(lease.get("spec", {}).get("holderIdentity") or "").partition(" at ")[0]

    def another(self, *before: str) -> str:
        """The one that leads, once it is none of these, and none that is being deleted."""

        def found() -> str:
            staying = {pod["metadata"]["name"] for pod in self.drivers()}
            return leader if (leader := self.leader()) in staying - {*before} else ""

        return eventually(found, "another leads")

    def rolled_out(self) -> None:
        """Wait until both are as the Deployment says, and Ready."""
        words = ("rollout", "status", DEPLOYMENT, "--timeout=170s")
        self.plane.kubectl(*OURS, *words, within_s=180.0)

    def node_of(self, pod: str) -> str:
        return str(self.plane.read(paths.pods("holdfast", pod))["spec"]["nodeName"])

    # ------------------------------------------------------------ their journal

    def entries(self) -> list[Entry]:
        """What they have written down."""
        with psycopg.connect(self.postgres.url(self.database), autocommit=True) as database:
            rows = database.execute("SELECT body FROM entries ORDER BY sequence").fetchall()
        return [_decode(body) for (body,) in rows]

    def revision(self) -> str:
        """The migration that made its tables."""
        with psycopg.connect(self.postgres.url(self.database), autocommit=True) as database:
            found = database.execute("SELECT version_num FROM alembic_version").fetchone()
        return str(found[0]) if found else ""

    def newest_term(self) -> int:
        """Of those that have written."""
        return max((each.term for each in self.entries()), default=0)

    def under(self, term: int, nodes: Collection[str]) -> None:
        """Wait until the executors of these nodes are with the driver of the newest term, which is
        a later one.
        """

        def connected() -> set[str]:
            newest = max(self.newest_term(), term + 1)
            of_it = [each.event for each in self.entries() if each.term == newest]
            return {event.node for event in of_it if isinstance(event, ExecutorConnected)}

        eventually(lambda: connected() >= set(nodes), f"all are connected after term {term}")


@contextmanager
def shipped_pair(
    plane: ControlPlane, folder: Path, postgres: Postgres, *, nodes: int, more: Sequence[str] = ()
) -> Iterator[Pair]:
    """`kubectl apply -k deploy/kubernetes`, and the Secret that a person makes; `more`: options of
    the nodes. All of it is gone at the end, with the jobs of the namespace `default`.
    """
    if best_kind()[0] is Kind.LOOPBACK:
        pytest.skip(f"no namespaces here: {best_kind()[1]}")
    plane.kubectl("apply", "-k", str(DEPLOY))
    name = postgres.new_database()
    url = f"postgresql://holdfast@{SWITCH_ADDRESS}/{name}"
    secret = (f"--from-literal=url={url}", f"--from-literal=password={postgres.password}")
    plane.kubectl(*OURS, "create", "secret", "generic", "holdfast-journal", *secret)
    options = ["--lease-s", "4", "--way", f"5432=127.0.0.1:{postgres.port}", *more]
    with Joined(plane, folder / "nodes", nodes=nodes, more=options) as joined:
        try:
            yield Pair(plane, joined, postgres, name)
        finally:
            plane.kubectl("delete", "tj", "--all", "--wait=false")
            what = ("deployment,service,pdb,secret", "--all", "--wait=false")
            plane.kubectl(*OURS, "delete", *what)
            eventually(lambda: _no_driver_is_left(plane), "no driver is left, nor made anew")
            plane.kubectl("delete", "pods", "-l", "holdfast.dev/job", *NOW)
    plane.kubectl(*OURS, "delete", "lease", "--all")  # no driver is left to make it again
    left = joined.leftovers()
    assert left.count == 0, left


def _no_driver_is_left(plane: ControlPlane) -> bool:
    """Nodes of the same names come back with the next module: what was theirs would run there."""
    plane.kubectl(*OURS, "delete", "replicasets,pods", "--all", *NOW)
    sets = plane.read("/apis/apps/v1/namespaces/holdfast/replicasets")["items"]
    return not (sets or plane.read(paths.pods("holdfast"))["items"])


def apply_job(plane: ControlPlane, name: str, namespace: str = "default", **spec: Any) -> None:
    """Make a TrainingJob."""
    document = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "TrainingJob"}
    document |= {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
    plane.apply(paths.training_jobs(namespace, name), document)
