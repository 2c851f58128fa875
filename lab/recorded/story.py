"""The script: a job of four nodes trains, loses one, goes on with its standby; people do the rest.

Used by `main`. Each operation of the REST interface is asked once, when it has something to tell.
"""

import json
import re
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx

from holdfast.diagnostics.registry import TESTS
from holdfast.driver.adapters.rest.events import written
from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Exam
from holdfast.lab.recorded.driver import Recorded
from holdfast.protocol.messages import (
    DiagnosticOrder,
    DiagnosticResult,
    Heartbeat,
    RankProgress,
    Rendezvous,
    Stored,
)
from holdfast.protocol.paths import RunPaths
from holdfast.traces.block import Block, encode
from holdfast.traces.model import Span
from holdfast.traces.sinks import Place
from holdfast.traces.sinks.files import FileSink

JOB: dict[str, Any] = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "speech-7b", "labels": {"team": "speech"}},
    "spec": {
        "nodes": 4,
        "ranksPerNode": 2,
        "standbys": 1,
        "command": ["python", "train.py", "--lr", "3e-4"],
        "workdir": "/data/speech",
        "topology": {"tp": 2, "pp": 2, "dp": 2},
        "checkpoint": {"storeUrl": "file:///data/checkpoints/speech", "storeIntervalSteps": 50},
    },
}
NAME = "speech-7b"
LIFE = "life-7f3a91c2d4b0865e"
"""It is drawn anew in each play."""
BETWEEN_S = 10.0
"""Between two questions of people."""
CODE = "tQ3vKcJ0mWb2h8s5ZyR1Dg"
"""In place of one that nobody could foresee."""
STEP_S = 0.5
"""As often as daemons send heartbeats, so that each shows a step."""
TOKENS_A_STEP = 32_768

Bodies = dict[str, Any]
Answers = dict[str, Any]


class Story:
    """One play of it; `bodies` and `answers` by operation, text in a pair with its media type."""

    def __init__(self, folder: Path) -> None:
        self.driver = Recorded(folder)
        self._folder = folder
        self.bodies: Bodies = {}
        self.answers: Answers = {}
        self._beats = 0
        self._diagnosis = 0

    async def play(self) -> None:
        try:
            await self._starts()
            await self._loses_a_node()
            await self._is_looked_at()
            await self._people_about_nodes()
            await self._people_about_the_job()
            await self._people_diagnose()
        finally:
            await self.driver.close()

    # ------------------------------------------------------------ what happens

    async def _starts(self) -> None:
        await self.driver.happened(e.DriverStarted(term=1))
        for number in range(1, 6):
            await self._comes(f"node-{number}", rack=f"rack-{1 + number // 4}")
        await self._asked("POST /jobs", JOB)
        await self._runs()
        await self._trains(range(1, 207))

    async def _loses_a_node(self) -> None:
        """Its heartbeats end, then the cluster says so, then its connection is lost."""
        await self.driver.until(self.driver.now() + 1.4)
        self.driver.watch.fact("node-4", False, self.driver.now())
        lost = e.ExecutorDisconnected(node="node-4", incarnation="node-4-first")
        gone = e.NodeVanished(node="node-4", why="its lease was not renewed for 1.5 s")
        await self.driver.happened(lost, gone)
        await self._runs(stored=200)
        await self._trains(range(201, 221))

    async def _is_looked_at(self) -> None:
        for name in ("GET /jobs", "GET /jobs/{job}", "GET /jobs/{job}/progress"):
            await self._asked(name)
        self._traces()
        await self.driver.curves.look(lambda _: nullcontext())
        looked = ("ranks", "view3d", "curves", "spans", "attempts", "story", "why", "goodput")
        for name in (*looked, "ranks/{rank}/logs"):
            await self._asked(f"GET /jobs/{{job}}/{name}")
        await self._asked("POST /jobs/{job}/stacks", {"ranks": [0, 1, 5]})
        await self._asked("POST /nodes/{node}/burst", {"seconds": 10}, "node-1")
        for name in ("", "/{burst}", "/{burst}.svg"):
            await self._asked(f"GET /jobs/{{job}}/bursts{name}")
        for name in ("", "/{node}", "/{node}/why"):
            await self._asked(f"GET /nodes{name}")
        for name in ("GET /incidents", "GET /incidents/{number}", "GET /evidence", "GET /goodput"):
            await self._asked(name)
        await self._asked("GET /digest")
        await self._asked("GET /webhooks")
        await self._asked("POST /webhooks/{webhook}/test")
        for name in ("/healthz", "/readyz", "/metrics"):
            await self._asked(f"GET {name}")
        await self._asked("POST /codes")
        self.answers["POST /codes"] |= {"code": CODE, "path": f"/?code={CODE}"}
        vanished = [x for x in self.driver.entries() if isinstance(x.event, e.NodeVanished)]
        self.answers["GET /events"] = ["text/event-stream", written(vanished[0]).decode()]

    def _traces(self) -> None:
        """A daemon keeps what a rank did last: it came to an all-reduce before its peer did."""
        job, now_s = self.driver.state.jobs[NAME], self.driver.now()
        last: dict[str, Any] = {"rank": 5, "attempt": job.attempt, "node": "node-3", "step": 220}
        last |= {"kind": "collective", "name": "all_reduce", "group": 3_217, "number": 440}
        start_s = now_s - job.submitted_s - 1.0
        block = Block(
            job=NAME,
            node="node-3",
            submitted_s=job.submitted_s,
            error_s=0.001,
            wall_s=now_s,
            dropped=0,
            whole=True,
            spans=[Span(start_s=start_s, took_s=0.125, waited_s=0.12, **last)],
        )
        folder = RunPaths(self._folder).traces(NAME)
        FileSink().put(Place(folder, NAME, job.attempt, "node-3", now_s), encode(block))

    async def _people_about_nodes(self) -> None:
        fan = {"reason": "its fan is loud; a technician looks at it on Monday"}
        await self._asked("POST /nodes/{node}/evict", fan)
        await self._comes("node-4", rack="rack-2", life="second")
        await self._asked("POST /nodes/{node}/restore", {"reason": "it has a new fan"})
        kernel = {"reason": "new kernel", "within_s": 300}
        await self._asked("POST /nodes/{node}/maintain", kernel)
        cable = {"words": "its cable was replaced", "says": "clears"}
        await self._asked("POST /nodes/{node}/facts", cable)
        loader = {"words": "the new loader is tested", "says": "clears", "version": 1}
        await self._asked("POST /jobs/{job}/facts", loader)
        await self._asked("POST /brake/apply", {"reason": "we rewire rack 2"})
        await self._asked("GET /brake")
        await self._asked("POST /brake/release", {"reason": "the switch is mended"})

    async def _people_about_the_job(self) -> None:
        await self._asked("POST /jobs/{job}/suspend")
        await self._rests()
        await self._asked("POST /jobs/{job}/resume")
        await self._runs(stored=200)
        slower = JOB["spec"] | {"command": ["python", "train.py", "--lr", "1e-4"]}
        await self._asked("PUT /jobs/{job}", JOB | {"spec": slower})
        await self._runs(stored=200)
        await self._asked("POST /jobs/{job}/stop")
        await self._rests()
        await self._asked("DELETE /jobs/{job}")

    async def _people_diagnose(self) -> None:
        """The others are good, which is kept; the link of node-4 has a tenth of what it should."""
        await self._diagnosed("node-2", "node-3", "node-5")
        await self._asked("POST /diagnoses/{diagnosis}/calibrate")
        await self._asked("GET /calibrations")
        await self._diagnosed("node-4")
        await self._asked("GET /diagnoses/{diagnosis}")
        await self._asked("DELETE /diagnoses/{diagnosis}")

    async def _diagnosed(self, *nodes: str) -> None:
        """Those that are tested say what they measured."""
        await self._asked("POST /diagnoses", {"nodes": list(nodes)})
        self._diagnosis = self.driver.state.sequence
        while exams := [exam for exam in self.driver.state.exams.values() if not _is_over(exam)]:
            for node in exams[0].orders:
                told = tuple(_measured(node, order) for order in exams[0].orders[node])
                ended = e.DiagnosticEnded(node=node, id=exams[0].id, results=told)
                await self.driver.happened(ended)

    # ------------------------------------------------------------ what nodes do and say

    async def _comes(self, node: str, *, rack: str, life: str = "first") -> None:
        address = f"10.0.0.{node.removeprefix('node-')}"
        await self.driver.happened(
            e.NodeAppeared(node=node, rack=rack),
            e.ExecutorConnected(node=node, incarnation=f"{node}-{life}", address=address),
        )
        self.driver.watch.fact(node, True, self.driver.now())
        self.driver.watch.connected(node, "daemon", self.driver.now())

    async def _runs(self, *, stored: int | None = None) -> None:
        """Every node does what it was told, until the ranks of a new attempt run."""
        await self._rests(stored=stored)
        job = self.driver.state.jobs[NAME]
        store = Rendezvous(address="10.0.0.1", port=29_400)
        host, epoch = job.host or "", job.epoch
        ready = e.RendezvousReady(job=NAME, epoch=epoch, node=host, rendezvous=store)
        await self.driver.happened(ready)
        for node in self.driver.state.jobs[NAME].nodes:
            await self.driver.happened(e.RanksRunning(job=NAME, epoch=epoch, node=node))

    async def _rests(self, *, stored: int | None = None) -> None:
        """Nodes are there, and no earlier rank is left on them."""
        for node in self.driver.state.jobs[NAME].members:
            if not self.driver.state.nodes[node].allocated:
                await self.driver.happened(e.NodeAllocated(job=NAME, node=node))
        job = self.driver.state.jobs[NAME]
        first = job.history[0].epoch if job.history else job.epoch
        whole = () if stored is None else (Stored(step=stored, epoch=first),)
        for node in job.members:
            quiet = e.NodeQuiet(
                job=NAME, epoch=job.epoch, node=node, stored=whole if node == job.host else ()
            )
            await self.driver.happened(quiet)
        for left in [node.name for node in self.driver.state.nodes.values() if node.releasing]:
            await self.driver.happened(e.NodeReleased(node=left))

    async def _trains(self, steps: Iterable[int]) -> None:
        """A step each half second; every 50th is in the store soon after."""
        for step in steps:
            await self.driver.until(self.driver.now() + STEP_S)
            job = self.driver.state.jobs[NAME]
            for node in job.nodes:
                self.driver.watch.heard(self._heartbeat(node, step), self.driver.now())
            for event in self.driver.watch.tick(self.driver.now()):
                await self.driver.happened(event)
            if step % 50 == 0:
                said = e.CheckpointStored(job=NAME, node=job.host or "", epoch=job.epoch, step=step)
                await self.driver.happened(said)

    def _heartbeat(self, node: str, step: int) -> Heartbeat:
        self._beats += 1
        job = self.driver.state.jobs[NAME]
        ranks = tuple(
            RankProgress(
                rank=seat.rank,
                epoch=job.epoch,
                job=NAME,
                step=step,
                phase="forward",
                memory_bytes=3_221_225_472,
                loss=3.125,
                tokens=TOKENS_A_STEP * step,
                hooks=True,
            )
            for seat in job.seats
            if seat.node == node
        )
        uptime_s = self.driver.now()
        return Heartbeat(
            node=node, incarnation=node, sequence=self._beats, uptime_s=uptime_s, ranks=ranks
        )

    # ------------------------------------------------------------ what is asked

    async def _asked(self, name: str, body: Any = None, node: str = "node-4") -> None:
        """Ask, and keep the answer."""
        method, path = name.split()
        named = {
            "number": 1,
            "rank": 5,
            "diagnosis": self._diagnosis,
            "burst": 1,
            "webhook": "on-call",
        }
        url = path.format(job=NAME, node=node, **named)
        url = f"http://driver{url}" if path in ("/healthz", "/readyz", "/metrics") else url
        sent = {} if body is None else {"json": body}
        answer = await self.driver.ask(method, url, **sent)
        assert answer.is_success, (name, answer.text)
        if body is not None:
            self.bodies[name] = body
        self.answers[name] = _kept(answer)
        await self.driver.until(self.driver.now() + BETWEEN_S)


REACHED = {
    "compute": 95.0,
    "cpus": 100.0,
    "memory": 40.0,
    "disk_write": 1_200.0,
    "disk_read": 900.0,
    "allreduce": 11.0,
    "datagrams": 100.0,
}
"""By test; the others have no figure without a GPU."""


def _is_over(exam: Exam) -> bool:
    return exam.asked is not None and exam.asked.verdict is not None


def _measured(node: str, order: DiagnosticOrder) -> DiagnosticResult:
    slow = order.test == "allreduce" and "node-4" in order.members
    return DiagnosticResult(
        id=order.id,
        test=order.test,
        node=node,
        round=order.round,
        members=order.members,
        ok=True,
        value=1.1 if slow else REACHED.get(order.test),
        unit=TESTS[order.test].unit if order.test in REACHED else "",
    )


def _kept(answer: httpx.Response) -> Any:
    """The answer as it is shown: JSON, or a pair of media type and text."""
    text = re.sub(r"life-[0-9a-f]{16}", LIFE, answer.text)
    media_type = answer.headers["content-type"].partition(";")[0]
    if media_type.endswith("json"):
        return json.loads(text, parse_float=lambda said: round(float(said), 3))
    jobs, _, _ = text.partition("# HELP holdfast_incidents")  # some of the others tell real times
    return [media_type, jobs]
