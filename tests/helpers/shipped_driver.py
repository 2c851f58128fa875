"""A driver with the shipped role and nothing else, and emulated nodes that joined its cluster.

Used by tests that play the whole path in a namespace of their own.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from waiting import DEADLINE_S

from holdfast.driver.adapters.sql.sqlite import read_only
from holdfast.driver.core.state.model import State
from holdfast.driver.formats.encode import decode
from holdfast.driver.ports import Entry, Kept, PermanentError
from holdfast.driver.settings import Settings
from holdfast.kit.supervise import Child, Lifeline
from holdfast.kubeapi import paths
from holdfast.lab.emulator.kubelet.joined import Joined
from holdfast.lab.emulator.namespaces import Kind, best_kind
from holdfast.lab.emulator.nodes import DRIVER_URL
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.lab.supervised import Supervised

BASE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "base"
MANIFESTS = ("crd.yaml", "priorities.yaml", "namespace.yaml", "rbac.yaml")
ACCOUNT = ("holdfast", "holdfast-driver")
DRIVER = f"system:serviceaccount:{':'.join(ACCOUNT)}"
"""As the audit log calls it."""

QUICK_LEASES = ("--lease-s", "4")
"""Renewed each second: the tests' control planes take a node for lost after sixteen."""

RUNNING: list[Path] = []
"""Folders of the drivers that run now: a test that fails shows what they decided."""


@contextmanager
def shipped_driver(
    plane: ControlPlane,
    folder: Path,
    *,
    namespace: str,
    nodes: int,
    driver: Sequence[str] = (),
) -> Iterator[Joined]:
    """The nodes, with a driver outside that they reach by their gateway. `driver`: options of it.

    All of it is gone at the end, with the namespace, which is made here.
    """
    if best_kind()[0] is Kind.LOOPBACK:
        pytest.skip(f"no namespaces here: {best_kind()[1]}")
    plane.kubectl("apply", *(f"--filename={BASE / manifest}" for manifest in MANIFESTS))
    plane.make_namespace(namespace)
    state = folder / "driver"
    words = ["--state", str(state), "--cluster", "kubernetes", "--namespace", namespace]
    words += ["--kubeconfig", str(plane.as_account(*ACCOUNT)), "--driver-urls", DRIVER_URL]
    words += ["--node-selector", "kubernetes.io/os=linux", *driver]
    options = [*QUICK_LEASES, "--driver-socket", str(state / "driver.sock")]
    with Joined(plane, folder / "nodes", nodes=nodes, more=options) as joined:
        joined.ready(DEADLINE_S)
        lifeline = Lifeline()
        log = folder / "driver.log"
        process = Child("driver", "holdfast.driver.main", words, log=log, lifeline=lifeline)
        supervised = Supervised([process], lifeline)
        RUNNING.append(folder)
        try:
            yield joined
        finally:
            RUNNING.remove(folder)
            plane.delete(paths.namespaces(namespace))
            supervised.end()
            plane.delete(paths.pods(namespace), grace_s=0)  # their nodes' names come again
    left = joined.leftovers()
    assert left.count == 0, left


def kept_in(folder: Path, job: str, rank: int) -> Kept | None:
    """What it keeps of what a rank wrote, whose pod is gone."""
    journal, _ = read_only(Settings(state=folder / "driver").paths.journal)
    with closing(journal):
        return journal.kept(job, rank)


def state_in(folder: Path) -> State:
    """As the driver of this folder has written it down."""
    journal, _ = read_only(Settings(state=folder / "driver").paths.journal)
    with closing(journal):
        encoded = journal.load()[0]
    assert encoded is not None
    return decode(encoded)


def entries_in(folder: Path) -> list[Entry]:
    """What the driver of this folder has written down."""
    journal, _ = read_only(Settings(state=folder / "driver").paths.journal)
    with closing(journal):
        return journal.entries()


def decided_in(folder: Path) -> str:
    """What the driver of this folder decided last, or why that cannot be read, in lines."""
    try:
        return "\n".join(f"{each.at} {each.why}" for each in entries_in(folder)[-30:])
    except PermanentError as unreadable:  # it failed before it had written anything
        return str(unreadable)
