"""Kubernetes as `ports.Cluster`: nodes are Node objects, an executor is a pod, distrust is a taint.

Made by the driver's wiring; `run` has to run beside the loop. What exists is read off the API
server and known by its UID; what is not ours is left alone. Must not decide: a pod that ends, or
cannot be placed, is told.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from math import inf
from typing import Any, Protocol

from msgspec.structs import replace

from holdfast.driver.adapters.kubernetes import exampods, facts, names, pods, podspec
from holdfast.driver.adapters.kubernetes.holds import Hold, Holds, hold_of, stray, wanted
from holdfast.driver.adapters.kubernetes.marking import Marking
from holdfast.driver.adapters.kubernetes.placing import PLACED_WITHIN_S, Placing, Unwanted
from holdfast.driver.adapters.kubernetes.podbook import PodBook
from holdfast.driver.adapters.kubernetes.room import Room
from holdfast.driver.adapters.kubernetes.stuck import STUCK_S, Stuck
from holdfast.driver.ports import (
    AnyFact,
    Ended,
    Ending,
    Fact,
    Lingering,
    PermanentError,
    Starved,
    TemporaryError,
    UnfitError,
)
from holdfast.kit.clock import Clock
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.kubeapi.mirror import version_of
from holdfast.kubeapi.reflector import Changed, Reflector, Removed, Synced
from holdfast.protocol.nodeenv import Drivers

Object = dict[str, Any]

OF_NODES = (("status", "images"), ("status", "nodeInfo"), ("status", "volumesAttached"))
OF_PODS = (("spec", "containers"), ("spec", "volumes"), ("spec", "affinity"))
"""What nobody here reads of a Node, or of a pod once it is made: most of the size of both."""

OURS = f"app.kubernetes.io/managed-by={names.MANAGER}"

SEEN_WITHIN_S = 5.0
"""Of what we wrote to a node, until it comes back to us."""


class Owners(Protocol):
    """The TrainingJobs behind core jobs."""

    async def seen(self) -> None:
        """Return once all that there are were listed."""
        ...

    def owner(self, job: str) -> Object | None:
        """The object of a core job; None where there is none."""
        ...

    def job_of(self, pod: Object) -> str:
        """The core job that a pod of ours was made for; "" for one that tests its node."""
        ...


class KubernetesCluster:
    """Nodes of a Kubernetes cluster, those that `node_selector` (a label selector) selects."""

    executors_first = False  # one comes with a pod of a job

    def __init__(
        self,
        client: Client,
        owners: Owners,
        *,
        clock: Clock,
        drivers: Drivers,
        namespace: str = "",
        node_selector: str = "",
        pod_groups: bool = False,
        placed_within_s: float = PLACED_WITHIN_S,
    ) -> None:
        self._owners = owners
        self._clock = clock
        self._nodes = Reflector(
            client, paths.nodes(), without=OF_NODES, labelSelector=node_selector
        )
        self._pods = Reflector(client, paths.pods(namespace), without=OF_PODS, labelSelector=OURS)
        self._room = Room(client, self._nodes.store, namespace=namespace, tell=self._say)
        self.book = PodBook()
        self.book.when_starved(self._starved)
        self._marking = Marking(client, clock)
        self._placing = Placing(
            client,
            self.book,
            drivers=drivers,
            room=self._room,
            pod_groups=pod_groups,
            placed_within_s=placed_within_s,
        )
        self._seen = asyncio.Event()  # nodes and pods were both listed
        self._facts: dict[str, Fact] = {}
        self._holds = Holds()
        self._current: dict[str, str] = {}  # UID of the pod of each hold or exam, by node
        self._wanted: frozenset[str] = frozenset()  # nodes that the journal gives to somebody
        self._replaced: list[Callable[[str, str], None]] = []
        self._given_up: set[str] = set()  # nodes that are to be released
        self._expected: dict[str, str] = {}
        self._present_before: frozenset[str] = frozenset()
        self._bell = asyncio.Event()  # rings with each change of a node
        self._listeners: set[asyncio.Queue[AnyFact]] = set()

    # ------------------------------------------------------------ its life

    def expect(self, held: Mapping[str, str], present: Collection[str]) -> None:
        """What the driver before knew. `held`: jobs by node, of which each pod is adopted, or told
        as ended; `present`: nodes, each of which is told as gone where there is none any more.
        """
        self._expected, self._present_before = dict(held), frozenset(present)

    async def run(self) -> None:
        """Keep up with the API server, for ever."""
        listed = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_nodes(listed))
            group.create_task(self._follow_pods(listed))
            group.create_task(self._tell_stuck())
            group.create_task(self._room.follow())

    async def listed(self) -> None:
        """Return once all nodes and pods were listed, and the pods of known jobs taken over."""
        await self._seen.wait()

    @property
    def reflectors(self) -> dict[str, Reflector]:
        """By collection, for figures."""
        seen = {"nodes": self._nodes, "pods": self._pods}
        if self._room.unseen():
            return seen
        return {**seen, "pods of all": self._room.reflector, "classes": self._room.classes}

    def want(self, nodes: Collection[str]) -> None:
        """By the journal, jobs and exams have these nodes. Of one that is new among them every
        connection ends, before anything is told there: its pod is yet to be made, or found.
        """
        before, self._wanted = self._wanted, frozenset(nodes)
        for node in self._wanted - before:
            self._replace(node, "")

    def hears(self, pod: Object) -> bool:
        """Whether what runs in this pod of ours is listened to. A node that somebody has is its
        holder's alone, and nobody's until that is known. On any other a pod is heard that has yet
        to hear that nothing is wanted of it: back from a cut link, or being deleted, but not beside
        another.
        """
        node = pods.node_of(pod)
        has = node in self._wanted or node in self._holds or node in self._current
        if has or not self._seen.is_set():
            return bool(self._current.get(node) == pod["metadata"]["uid"])
        return not pods.ending(pod) or len(self.book.on(node)) == 1

    def when_replaced(self, tell: Callable[[str, str], None]) -> None:
        """Call `tell(node, uid)` when no other pod than the one with this UID has the node from now
        on; "" while it is not known which.
        """
        self._replaced.append(tell)

    def away(self) -> str:
        """Why nothing new is known of nodes, in a sentence; "" while the API server is heard."""
        why = self._nodes.away() or self._pods.away()
        return f"the API server is not heard: {why}" if why else ""

    def absent(self) -> dict[str, str]:
        """Why each Node that there is and that is not ready is not."""
        facts_of = {name: self._facts[name] for name in self._nodes.store if name in self._facts}
        return {name: fact.why for name, fact in facts_of.items() if not fact.present}

    def hindrance(self, job: str) -> str:
        """What keeps a pod of the job from running; "" if nothing does."""
        owner = self._owners.owner(job)
        return self.book.hindrance(owner["metadata"]["uid"]) if owner else ""

    # ------------------------------------------------------------ the port `Cluster`

    async def facts(self) -> AsyncIterator[AnyFact]:
        await self._seen.wait()
        told: asyncio.Queue[AnyFact] = asyncio.Queue()
        self._listeners.add(told)
        try:
            for fact in tuple(self._facts.values()):
                yield fact
            for node in sorted(self._present_before - self._facts.keys()):
                yield facts.gone(node)
            for ending in [self._leaving(pod) for pod in self.book.all()]:
                if ending is not None:
                    yield ending
            while self._expected:
                node, job = self._expected.popitem()
                yield Ended(job=job, node=node, why="no pod of it is left")
            while True:
                yield await told.get()
        finally:
            self._listeners.discard(told)

    async def allocate(self, job: str, node: str) -> None:
        await self._seen.wait()
        await self._room.known()
        owner, seen = self._owners.owner(job), self._nodes.store.get(node)
        if owner is None:
            raise UnfitError(f"job {job}: it has no TrainingJob any more")
        if seen is None:
            raise PermanentError(f"node: there is no Node {node!r}")
        if why := facts.distrust_of(seen):
            raise PermanentError(f"node {node} is distrusted: {why}")
        hold = self._take(job, owner, node)
        try:
            with self._placing.joined(owner) as gang:
                pod = await self._placing.pod(
                    hold, owner, seen, gang, check=lambda: self._check_wanted(node)
                )
                self._hold_by(node, pod)
                await self._placing.placed(pod, gang)
        except (TemporaryError, PermanentError):
            self._let_go(node)
            raise

    async def requalify(self, node: str, *, number: int, job: str, spec: bytes) -> None:
        await self._seen.wait()
        seen = self._nodes.store.get(node)
        if seen is None:
            raise PermanentError(f"node: there is no Node {node!r}")
        if why := facts.untestable(seen, self._clock.wall()):
            raise TemporaryError(why)
        drivers = self._placing.drivers
        order = exampods.ExamOrder(exampods.job_of(spec), seen, number, drivers)
        self._check_wanted(node)
        pod = await self._placing.requalify(order)
        self._check_wanted(node)
        self._hold_by(node, pod)
        await self._placing.bound(pod)

    def _check_wanted(self, node: str) -> None:
        if node in self._given_up:
            self.give_up(node)  # with what was made for it since
            raise Unwanted(f"node {node} is wanted no more")

    def give_up(self, node: str) -> None:
        self._given_up.add(node)
        for pod in self.book.on(node):
            self.book.give_up(pod["metadata"]["uid"])

    async def release(self, node: str) -> None:
        await self._seen.wait()
        self._given_up.discard(node)
        self._let_go(node)
        for pod in self.book.on(node):
            await self._placing.delete(pod, force=not self._present(node))

    async def distrust(self, node: str, *, incident: int, reason: str) -> None:
        await self._until_seen(await self._marking.distrust(node, incident=incident, reason=reason))

    async def trust(self, node: str) -> None:
        await self._until_seen(await self._marking.trust(node))

    # ------------------------------------------------------------ what the API server tells

    async def _follow_nodes(self, listed: asyncio.Event) -> None:
        async for change in self._nodes.changes():
            self._bell.set()
            self._bell = asyncio.Event()
            match change:
                case Synced():
                    listed.set()
                case Changed(told):
                    self._tell(facts.fact_of(told, self._clock.wall()))
                    self._room.look_again(told["metadata"]["name"])
                case Removed(told):
                    self._tell(facts.gone(told["metadata"]["name"]))

    async def _follow_pods(self, nodes_listed: asyncio.Event) -> None:
        async for change in self._pods.changes():
            self.book.told(self._pods.told)
            match change:
                case Synced():
                    await nodes_listed.wait()
                    await self._owners.seen()
                    self._adopt()
                    self._seen.set()
                case Changed(told):
                    self.book.put(told)
                    if leaving := self._leaving(told):
                        self._say(leaving)
                    elif (why := pods.end(told)) and not self._works(told):
                        self._ended(told, why)
                case Removed(told):
                    self.book.drop(told)
                    self._ended(told, f"pod {told['metadata']['name']} is gone")

    def _adopt(self) -> None:
        """Take over the pods that the journal knows of, by the UID of their owner."""
        for node, job in tuple(self._expected.items()):
            owner = self._owners.owner(job)
            pod = self._adoptable(node, owner) if owner else None
            if pod is not None:
                self._holds.put(node, hold_of(pod, job))
                self._hold_by(node, pod)
                del self._expected[node]

    def _adoptable(self, node: str, owner: Object) -> Object | None:
        """Of this node, the pod that works for the owner: to stay, or for a while yet."""
        mine = [pod for pod in self.book.on(node) if pods.works_for(pod, owner)]
        return self.book.living(node, owner) or next(filter(self._works, mine), None)

    def _works(self, pod: Object) -> bool:
        return pods.works_for_s(pod, self._clock.wall()) > 0

    async def _tell_stuck(self) -> None:
        """Of pods that nobody will end: the core has them released."""
        stuck = Stuck(self._present, self._is_stray)
        while True:
            await asyncio.sleep(STUCK_S)
            for pod, for_s in stuck.due(self.book.all(), self._clock.monotonic_s()):
                job, node, name = (
                    self._owners.job_of(pod),
                    pods.node_of(pod),
                    pod["metadata"]["name"],
                )
                why = f"pod {name} is on {node}, and nobody wants it there"
                if ending := pods.ending(pod):
                    since = f"has been Terminating for {for_s:.0f} s"
                    why = f"pod {name} {since} on {node}, which is away"
                self._say(Lingering(job=job, node=node, why=why, stray=not ending))

    def _is_stray(self, pod: Object) -> bool:
        """Whether its node, one of ours, is held by another pod, or by none."""
        node, job = pods.node_of(pod), self._owners.job_of(pod)
        if node not in self._facts or node in self._expected:
            return False
        owner = self._owners.owner(job) if job else None
        return stray(pod, job, owner, self._current.get(node, ""))

    # ------------------------------------------------------------ what is known

    async def _until_seen(self, written: Object | None) -> None:
        """Return once what was written is what is told, or it is told no more for a while."""
        if written is None:
            return
        name, version = written["metadata"]["name"], version_of(written)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SEEN_WITHIN_S):
                while (seen := self._nodes.store.get(name)) and version_of(seen) < version:
                    await self._bell.wait()

    def _present(self, node: str) -> bool:
        fact = self._facts.get(node)
        return fact is not None and fact.present

    def _tell(self, fact: Fact) -> None:
        """To those who listen, if it is new; a time that comes nearer is no news."""
        known = self._facts.get(fact.node)
        self._facts[fact.node] = fact
        if known is None or replace(known, within_s=fact.within_s) != fact:
            self._say(fact)

    def _say(self, what: AnyFact) -> None:
        for listener in self._listeners:
            listener.put_nowait(what)

    def _take(self, job: str, owner: Object, node: str) -> Hold:
        hold = self._holds.get(node)
        if hold is not None and hold.job != job:
            raise TemporaryError(f"node {node} is held by {hold.job}")
        uid = owner["metadata"]["uid"]
        if hold is None or hold.owner != uid:
            known = self.book.living(node, owner)
            slot = self._holds.lowest_slot(uid)
            hold = hold_of(known, job) if known else Hold(job, uid, slot)
            self._holds.put(node, hold)
        return hold

    def _hold_by(self, node: str, pod: Object) -> None:
        self._current[node] = pod["metadata"]["uid"]
        self._replace(node, self._current[node])

    def _replace(self, node: str, uid: str) -> None:
        for tell in self._replaced:
            tell(node, uid)

    def _let_go(self, node: str) -> None:
        self._holds.drop(node)
        self._current.pop(node, None)

    def _ended(self, pod: Object, why: str) -> None:
        """Tell of the end of a pod that a job still had. Where the job's object goes its pods go
        with it, and then the job: nobody is to replace them.
        """
        node, hold = pods.node_of(pod), self._hold_of(pod)
        if pods.of_exam(pod) and self._current.get(node) == pod["metadata"]["uid"]:
            self._let_go(node)
            self._say(Ended(job="", node=node, why=why))
        if hold is None:
            return
        self._let_go(node)
        if wanted(hold, self._owners.owner(hold.job)):
            self._say(Ended(job=hold.job, node=node, why=why))

    def _starved(self, pod: Object) -> None:
        """Tell that the executor of a pod which a job has was killed for memory."""
        hold = self._hold_of(pod)
        owner = self._owners.owner(hold.job) if hold else None
        if hold is not None and owner is not None and not pods.ending(pod):
            limit = podspec.memory_limit(owner["spec"]["pod"])
            self._say(Starved(job=hold.job, node=pods.node_of(pod), limit_bytes=limit))

    def _leaving(self, pod: Object) -> Ending | None:
        """That a pod which a job has is going to end, while it works; its job's end is no news."""
        hold, within_s = self._hold_of(pod), pods.works_for_s(pod, self._clock.wall())
        if hold is None or not 0 < within_s < inf or self._owners.owner(hold.job) is None:
            return None
        node, why = pods.node_of(pod), pods.end(pod)
        evicted = bool(pods.disruption(pod))
        return Ending(job=hold.job, node=node, why=why, within_s=within_s, evicted=evicted)

    def _hold_of(self, pod: Object) -> Hold | None:
        """What the job holds by this pod; None where it holds the node by another, or not."""
        node = pods.node_of(pod)
        mine = self._current.get(node) == pod["metadata"]["uid"]
        return self._holds.get(node) if mine else None
