"""A driver process on a real API server, and what kubectl says of its jobs.

Used by tests of the driver as people use it. Its nodes are Node objects without machines, so pods
are bound and never run.
"""

import asyncio
import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from made_nodes import MadeNodes
from running_driver import DriverProcess
from waiting import DEADLINE_S, eventually

from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.lab.kubernetes.plane import ControlPlane


class Operated:
    """A driver with its nodes. What is said of jobs is said of those in `namespace`."""

    def __init__(
        self, plane: ControlPlane, namespace: str, driver: DriverProcess, nodes: "Kept"
    ) -> None:
        self.plane = plane
        self.namespace = namespace
        self.driver = driver
        self.nodes = nodes

    def start(self) -> None:
        self.driver.spawn()

    def kill(self) -> None:
        self.driver.end(signal.SIGKILL)

    def url(self) -> str:
        """Where it answers, once it does; who was there before it answered elsewhere."""

        def said() -> str:
            process = self.driver.process
            with suppress(OSError, ValueError):
                found = json.loads(self.driver.paths.address.read_text())
                return str(found["http"]) if process and found["pid"] == process.pid else ""
            return ""

        return eventually(said, "it says where it answers")

    def asked(self, what: str) -> dict[str, Any]:
        """The driver's answer about it over REST, to who has the driver's own token."""
        token = self.driver.paths.user_token.read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        at = f"{self.url()}/v1alpha1/{what}"
        answer: dict[str, Any] = httpx.get(
            at, headers=headers, trust_env=False, verify=False, timeout=DEADLINE_S
        ).json()
        return answer

    # ------------------------------------------------------------ its jobs

    def document(self, name: str, **spec: Any) -> dict[str, Any]:
        """A TrainingJob of one node, but for what `spec` says."""
        pod = {"image": "holdfast-executor:1", **spec.pop("pod", {})}
        return {
            "apiVersion": "holdfast.dev/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"command": ["true"], "pod": pod, **spec},
        }

    def apply(self, name: str, **spec: Any) -> None:
        self.plane.apply(self._at(name), self.document(name, **spec))

    def patch(self, name: str, **spec: Any) -> None:
        self.plane.patch(self._at(name), {"spec": spec})

    def _at(self, name: str) -> str:
        return paths.training_jobs(self.namespace, name)

    def kubectl(self, *words: str, namespace: str = "", input: str = "") -> str:  # noqa: A002
        return self.plane.kubectl("-n", namespace or self.namespace, *words, input=input)

    def get(self, *words: str, namespace: str = "") -> dict[str, Any]:
        look = ("get", *words, "--ignore-not-found", "-o", "json")
        said = self.kubectl(*look, namespace=namespace)
        found: dict[str, Any] = json.loads(said) if said else {}
        return found

    def status(self, name: str) -> dict[str, Any]:
        job = self.plane.read(self._at(name))
        found: dict[str, Any] = job.get("status", {})
        return found

    def until(self, name: str, fact: Callable[[dict[str, Any]], object], what: str) -> None:
        eventually(lambda: fact(self.status(name)), what)

    def pods(self, job: str, *, namespace: str = "") -> dict[str, str]:
        """UIDs by name of the job's pods that are to stay."""
        labelled = f"?labelSelector=holdfast.dev/job={job}"
        found = self.plane.read(paths.pods(namespace or self.namespace) + labelled)
        staying = (pod["metadata"] for pod in found.get("items", ()))
        return {each["name"]: each["uid"] for each in staying if "deletionTimestamp" not in each}

    def bound(self, job: str, count: int) -> list[dict[str, Any]]:
        """The pods of the job that are to stay, once `count` have nodes. The driver hears of it
        later: what its status says of them, as that it is Allocated, has to be waited for.
        """
        labelled = f"?labelSelector=holdfast.dev/job={job}"

        def having_nodes() -> list[dict[str, Any]] | None:
            items: list[dict[str, Any]]
            items = self.plane.read(paths.pods(self.namespace) + labelled).get("items", [])
            staying = (pod for pod in items if "deletionTimestamp" not in pod["metadata"])
            found = [pod for pod in staying if "nodeName" in pod["spec"]]
            return found if len(found) == count else None

        return eventually(having_nodes, f"{count} pods of {job} have nodes") or []

    def delete(self, job: str = "") -> None:
        """The job, or all of them, and wait until there is none."""
        self.plane.delete(self._at(job))
        eventually(lambda: not self._there(job), f"{job or 'every job'} is gone")

    def _there(self, job: str) -> bool:
        found = self.plane.read(self._at(job))
        return bool(found.get("items", found))

    def end_pods(self) -> None:
        """All of them, at once, as kubelets would."""
        self.plane.delete(paths.pods(self.namespace), grace_s=0)

    def clear(self, job: str) -> None:
        """Delete the job and wait until nothing of it is left."""
        self.delete(job)
        eventually(lambda: not self.pods(job), f"no pod of {job} is left")


@contextmanager
def operated(
    plane: ControlPlane,
    folder: Path,
    *more: str,
    name: str,
    nodes: int,
    everywhere: bool = False,
    who: Path | Callable[[], Path] | None = None,
    before: str = "",
) -> Iterator[Operated]:
    """A driver for the new namespace NAME, or for all of them, and nodes NAME-1 and so on.

    `more`: further words on its command line; `who`: the kubeconfig of whom it is, or what gives it
    once the namespace is there, else of an administrator; `before`: what the names of the nodes
    begin with.
    """
    plane.make_namespace(name)
    called = [f"{before}{name}-{number + 1}" for number in range(nodes)]
    try:
        config = who() if callable(who) else who
        words = ["--cluster", "kubernetes", "--kubeconfig", str(config or plane.admin)]
        words += ["--node-selector", f"made={name}"]
        words += [] if everywhere else ["--namespace", name]
        driver = DriverProcess(folder / "state", *words, *more)
        with _kept(plane, called, mark=name) as kept:
            driven = Operated(plane, name, driver, kept)
            driven.start()
            try:
                yield driven
            finally:
                driven.driver.end()
    finally:
        plane.delete(paths.namespaces(name))


class Kept:
    """Nodes that a thread keeps as they are to be."""

    def __init__(self, objects: MadeNodes, loop: asyncio.AbstractEventLoop) -> None:
        self._objects = objects
        self._loop = loop

    def ready(self, node: str, status: str) -> None:
        """Have its kubelet say so from now on."""
        saying = self._objects.ready(node, status)
        asyncio.run_coroutine_threadsafe(saying, self._loop).result(DEADLINE_S)


@contextmanager
def _kept(plane: ControlPlane, nodes: list[str], *, mark: str) -> Iterator[Kept]:
    """The nodes, Ready, kept by a thread."""
    made, end = threading.Event(), threading.Event()
    failed: list[BaseException] = []
    keepers: list[Kept] = []

    async def kept() -> None:
        async with Client.from_kubeconfig(plane.admin, user_agent="tests") as client:
            objects = MadeNodes(client, *nodes, mark=mark)
            await objects.make()
            keepers.append(Kept(objects, asyncio.get_running_loop()))
            made.set()
            keeping = asyncio.create_task(objects.keep())
            await asyncio.to_thread(end.wait)
            keeping.cancel()
            await asyncio.wait([keeping])
            await objects.remove()

    def keep() -> None:
        try:
            asyncio.run(kept())
        except Exception as error:  # noqa: BLE001 - raised again where the test is
            failed.append(error)
            made.set()

    keeping = threading.Thread(target=keep)
    keeping.start()
    try:
        assert made.wait(DEADLINE_S)
        if not failed:
            yield keepers[0]
    finally:
        end.set()
        keeping.join(DEADLINE_S)
        if failed:
            raise failed[0]


def said(status: dict[str, Any], kind: str) -> str:
    """Status of a condition, "" where it is not there."""
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    return conditions.get(kind, "")
