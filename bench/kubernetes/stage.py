"""What a whole benchmark runs on: a control plane, fake nodes, and two emulated ones that run pods.

Made by `benchmark` for as long as a `with`; the turns use it.
"""

import asyncio
import shutil
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import msgspec

from holdfast.bench.kubernetes import fleet
from holdfast.bench.kubernetes.seen import Late, following
from holdfast.bench.kubernetes.usage import usage_of
from holdfast.bench.kubernetes.ways import Plain
from holdfast.driver.adapters.kubernetes import facts
from holdfast.kubeapi import paths
from holdfast.lab.emulator.kubelet.joined import Joined
from holdfast.lab.kubernetes import flags
from holdfast.lab.kubernetes.fake import FakeNodes
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.lab.on_kubernetes import DRIVER, install
from holdfast.protocol.paths import RunPaths

LEASE_S = 200
"""Of fake nodes: renewed a quarter into it, thousands of leases cost the API server little."""
START_S = 5.0
"""A kubelet needs some seconds for a container whose image is there."""
NICENESS = 10
"""Of the executors that are simulated: elsewhere these would be machines of their own, so all else
here goes before.
"""
LOOK_S, QUIET = 2.0, 0.15
"""kwok is quiet where it takes less than this share of a core; what it keeps alive takes some."""
REAL_NODES = 2
READY_WITHIN_S = 300.0
REAL_LEASE_S = 40
"""A kubelet's own."""


class Written(msgspec.Struct, frozen=True):
    """A write that the audit log tells of: `what` is resource, or resource/subresource; `at` is
    RFC 3339 in UTC.
    """

    verb: str
    what: str
    code: int
    at: str


class Stage:
    """`nodes` fake nodes are there, as many as `grow` was told. `way`: how its drivers are run."""

    def __init__(self, root: Path, way: Plain) -> None:
        self.root = root
        self.way = way
        self.plane = ControlPlane(
            root / "kubernetes", grace_s=LEASE_S, audit_policy=flags.AUDIT_WRITES
        )
        self.state = RunPaths(root / "driver")
        self.nodes = 0

    def __enter__(self) -> Self:
        with ExitStack() as up:
            up.enter_context(self.way)
            up.enter_context(self.plane)
            install(self.plane)
            self.way.install(self.plane)
            self.driver = self.plane.kubeconfig(
                DRIVER, ["system:serviceaccounts"], name="holdfast-driver"
            )
            self._fakes = up.enter_context(FakeNodes(self.plane, lease_s=LEASE_S, start_s=START_S))
            more = ["--lease-s", str(REAL_LEASE_S), *self.way.reached(self.state)]
            self.real = up.enter_context(
                Joined(self.plane, self.root / "nodes", nodes=REAL_NODES, more=more)
            )
            self.real.ready(READY_WITHIN_S)
            self._up = up.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._up.close()

    def grow(self, nodes: int) -> None:
        """Have so many fake nodes, all of them such that a scheduler uses them. Raises `Late`."""
        asyncio.run(self._grown(nodes))
        self.nodes = max(nodes, self.nodes)

    def settle(self) -> None:
        """Wait until kwok has done what it had to: no part is to have work of the one before it.

        Raises `Late`.
        """
        deadline_s = time.monotonic() + READY_WITHIN_S
        used_s = usage_of(self._fakes.pid).cpu_s
        while time.monotonic() < deadline_s:
            time.sleep(LOOK_S)
            before_s, used_s = used_s, usage_of(self._fakes.pid).cpu_s
            if used_s - before_s < QUIET * LOOK_S:
                return
        raise Late(f"not within {READY_WITHIN_S:g} s: kwok has caught up")

    def fresh_state(self) -> RunPaths:
        """The driver's folder, without anything of a driver before."""
        shutil.rmtree(self.state.root, ignore_errors=True)
        self.state.root.mkdir(mode=0o700)
        return self.state

    def written(self, since: str, agent: str) -> list[Written]:
        """By those whose User-Agent begins with `agent`, since a time (RFC 3339 in UTC).

        The API server begins a new file every 100 MB.
        """
        known = f'"userAgent":"{agent}'.encode()
        found: list[Written] = []
        for log in sorted(self.plane.audit_log.parent.glob("audit*.log")):
            with log.open("rb") as lines:
                events = (msgspec.json.decode(line) for line in lines if known in line)
                found += [each for each in map(_written, events) if each.at > since]
        return found

    async def _grown(self, nodes: int) -> None:
        wanted, here = nodes + REAL_NODES, f"{nodes} nodes are ready"
        async with (
            fleet.client_of(self.plane.admin) as client,
            following(client, paths.nodes(), _usable) as seen,
        ):
            await fleet.create_nodes(client, range(self.nodes, nodes))
            await seen.until(lambda: seen.count >= wanted, here, READY_WITHIN_S)


def _usable(node: dict[str, Any]) -> bool:
    return facts.ready(node) and not facts.taints(node)


def _written(event: dict[str, Any]) -> Written:
    about = event["objectRef"]
    what = "/".join(filter(None, (about["resource"], about.get("subresource"))))
    code, at = event["responseStatus"]["code"], event["requestReceivedTimestamp"]
    return Written(event["verb"], what, code, at)
