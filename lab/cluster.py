"""A whole laboratory: an emulated cluster and a driver on this machine, for as long as a `with`.

Used by the demo, chaos, the benchmarks and tests:

    with Lab(folder, nodes=4, standbys=1) as lab:
        name = lab.submit(job)                        # a TrainingJob as a dict
        lab.wait(name, lambda job: job["phase"] == "Succeeded", within_s=60)

Faults are done to it by `lab.chaos` alone. Must not tell the driver anything that a user would not.
"""

import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import httpx

from holdfast.driver.core.state.model import FINISHED
from holdfast.driver.ports import Entry
from holdfast.keeper import state as states
from holdfast.keeper.processes import RUN_MARK
from holdfast.keeper.state import KeeperState
from holdfast.kit.files import private_folder
from holdfast.kit.supervise import Child, Lifeline
from holdfast.lab.emulator.leftovers import Leftovers, look
from holdfast.lab.emulator.namespaces import Kind
from holdfast.lab.journals import opened
from holdfast.lab.supervised import Supervised
from holdfast.protocol.paths import RunPaths

LOOK_S = 0.05


class TooLate(Exception):
    """What was waited for did not come; the message says what was seen last."""


class Refused(Exception):
    """The driver refused a request; the message is what it said."""


class Lab:
    """One laboratory. Its folder has everything: driver's state, nodes, logs."""

    def __init__(
        self,
        root: Path,
        *,
        nodes: int,
        standbys: int = 0,
        racks: int = 1,
        gpus: int = 0,
        kind: Kind | None = None,
    ) -> None:
        self.run = RunPaths(root.resolve())
        self._journal = ""  # of the database where its journal is; "": in its own folder
        self.run_id = secrets.token_hex(6)
        self._sizes = (nodes, standbys, racks, gpus, kind)
        self._supervised: Supervised | None = None
        # it is on this machine: no proxy, and no authorities to read, which takes 18 ms
        self._http = httpx.Client(timeout=10.0, trust_env=False, verify=False)

    def __enter__(self) -> Self:
        private_folder(self.run.root)
        lifeline = Lifeline()
        children = [self._driver(lifeline), self._keeper(lifeline)]
        self._supervised = Supervised(children, lifeline)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._supervised is not None:
            self._supervised.end()
        self._http.close()

    # ------------------------------------------------------------ the cluster

    def state(self) -> KeeperState | None:
        """What the keeper wrote about its nodes; None while it starts."""
        return states.load(self.run.root)

    def kind(self) -> str:
        """What the nodes are made of, in words."""
        state = self.state()
        return state.kind if state else ""

    def pid(self, process: str) -> int:
        """Of "driver" or "keeper" now; 0 between two lives."""
        return self._supervised.children[process].pid if self._supervised else 0

    def leave(self, process: str) -> None:
        """From now on it is not started again when it has ended."""
        if self._supervised is not None:
            self._supervised.leave(process)

    def asked(self) -> RunPaths:
        """State of the driver that people ask."""
        return self.run

    def starts(self, process: str) -> int:
        """How often "driver" or "keeper" was started."""
        return self._supervised.children[process].starts if self._supervised else 0

    def ready(self, within_s: float = 30.0) -> None:
        """Wait until every node that is not lost has its executor connected to the driver."""

        def all_connected() -> bool:
            state = self.state()
            here = {node.name for node in state.nodes.values() if not node.lost} if state else set()
            nodes = self.ask("GET", "/nodes", within_s=within_s)["items"]
            seen = {node["name"] for node in nodes if node["connected"]}
            return bool(here) and here <= seen

        self.until(all_connected, "all nodes are connected", within_s)

    def store(self, job: str) -> Path:
        """Where checkpoints of the job are: a folder for each life of it, checkpoints in that."""
        return self.run.job(job) / "checkpoints"

    def leftovers(self) -> Leftovers:
        """What of this laboratory is on the machine now, found by looking at the machine."""
        return look(self.run_id, self.run.root)

    # ------------------------------------------------------------ the driver, as a user has it

    def submit(self, job: dict[str, Any], within_s: float = 30.0) -> str:
        """Submit a TrainingJob; its name. Raises `Refused` with what the driver said.

        With a key: the driver may take the job, and the answer come too late.
        """
        key = {"Idempotency-Key": secrets.token_hex(6)}
        self.ask("POST", "/jobs", within_s=within_s, headers=key, json=job)
        name: str = job["metadata"]["name"]
        return name

    def update(self, name: str, *, env: Mapping[str, str]) -> None:
        """Give the job a version with these environment variables, too. Raises `Refused`."""
        document = self.job(name)["spec"]
        document["spec"]["env"] |= env
        self.ask("PUT", f"/jobs/{name}", json=document)

    def job(self, name: str) -> dict[str, Any]:
        job: dict[str, Any] = self.ask("GET", f"/jobs/{name}")
        return job

    def nodes(self) -> list[dict[str, Any]]:
        nodes: list[dict[str, Any]] = self.ask("GET", "/nodes")["items"]
        return nodes

    def incidents(self, name: str) -> list[dict[str, Any]]:
        """Those that hit the job, oldest first."""
        found: list[dict[str, Any]] = self.ask("GET", "/incidents", params={"job": name})["items"]
        return found

    def entries(self) -> list[Entry]:
        """The driver's journal."""
        with closing(opened(self._journal, self.run)) as journal:
            return journal.entries()

    def story(self, name: str) -> dict[str, Any]:
        story: dict[str, Any] = self.ask("GET", f"/jobs/{name}/story")
        return story

    def wait(
        self, name: str, until: Callable[[dict[str, Any]], bool], *, within_s: float
    ) -> dict[str, Any]:
        """The job once `until` holds for it. Raises `TooLate` with its last state."""
        seen: dict[str, Any] = {}

        def holds() -> bool:
            seen.update(self.job(name))
            return until(seen)

        try:
            self.until(holds, f"job {name} is as wanted", within_s)
        except TooLate as late:
            brief = {key: seen.get(key) for key in ("phase", "step", "why", "waiting", "failure")}
            raise TooLate(f"{late}; seen last: {brief}") from None
        return seen

    def finished(self, name: str, *, within_s: float) -> dict[str, Any]:
        """The job once it is finished, however it ended."""
        return self.wait(name, lambda job: job["phase"] in FINISHED, within_s=within_s)

    def until(self, fact: Callable[[], bool], what: str, within_s: float) -> None:
        """Wait for a fact. Raises `TooLate`."""
        deadline_s = time.monotonic() + within_s
        while not fact():
            if self._supervised is not None and self._supervised.failure is not None:
                raise TooLate(f"{what}: {self._supervised.failure}")
            if time.monotonic() > deadline_s:
                raise TooLate(f"not within {within_s:g} s: {what}. Logs are in {self.run.root}")
            time.sleep(LOOK_S)

    def ask(
        self,
        method: str,
        path: str,
        *,
        within_s: float = 30.0,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Any:
        """One request, again while the driver is away. Raises `Refused` or `TooLate`."""
        answers: list[httpx.Response] = []

        def answered() -> bool:
            try:
                asked = self.asked()
                token = f"Bearer {asked.user_token.read_text().strip()}"
                base = json.loads(asked.address.read_bytes())["http"]
                sent = {"Authorization": token, **(headers or {})}
                answer = self._http.request(method, f"{base}/v1alpha1{path}", headers=sent, **more)
            except (httpx.TransportError, FileNotFoundError):
                return False  # it is starting, or starting again
            answers.append(answer)
            return True

        self.until(answered, f"the driver answers {method} {path}", within_s)
        if answers[0].is_error:
            raise Refused(answers[0].text)
        return answers[0].json() if answers[0].content else None

    # ------------------------------------------------------------ helpers

    def _driver(self, lifeline: Lifeline) -> Child:
        keeper = str(states.socket_path(self.run.root))
        return self._child("driver", "holdfast.driver.main", ["--keeper", keeper], lifeline)

    def _keeper(self, lifeline: Lifeline) -> Child:
        nodes, standbys, racks, gpus, kind = self._sizes
        arguments = ["--run-id", self.run_id]
        arguments += ["--nodes", str(nodes), "--standbys", str(standbys), "--racks", str(racks)]
        arguments += ["--gpus", str(gpus)]
        arguments += ["--driver-socket", str(self.run.socket)]
        arguments += ["--token-file", str(self.run.node_token)]
        arguments += ["--kind", str(kind)] if kind else []
        return self._child("keeper", "holdfast.lab.emulator.main", arguments, lifeline)

    def _child(
        self,
        name: str,
        module: str,
        arguments: list[str],
        lifeline: Lifeline,
        state: Path | None = None,
    ) -> Child:
        return Child(
            name,
            module,
            ["--state", str(state or self.run.root), *arguments],
            log=self.run.root / f"{name}.log",
            lifeline=lifeline,
            environment=os.environ | {RUN_MARK: self.run_id},
        )
