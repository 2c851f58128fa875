"""Pods of ours as last seen, by the node they are for; whoever waits for one of them is told.

Used by `cluster`, which shows it each change, and by `identity`. Must not order anything.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from holdfast.driver.adapters.kubernetes import names, pods
from holdfast.kubeapi.mirror import version_of

Object = dict[str, Any]


class PodBook:
    """Every pod that a TrainingJob, or a Node in an exam, controls and that says for which node."""

    def __init__(self) -> None:
        self._known: dict[str, Object] = {}  # by UID
        self._nodes: defaultdict[str, dict[str, Object]] = defaultdict(dict)  # by node, by UID
        self._jobs: defaultdict[str, dict[str, Object]] = defaultdict(dict)  # by job's UID, by UID
        self._incarnations: dict[tuple[str, int], int] = {}  # by UID of the job, and slot
        self._given_up: set[str] = set()  # UIDs
        self._told = 0  # version up to which the watch has told all
        self._gone: list[Callable[[Object], None]] = []
        self._news: list[Callable[[Object], None]] = []
        self._starved: list[Callable[[Object], None]] = []
        self._bells: defaultdict[str, list[asyncio.Future[None]]] = defaultdict(list)

    def told(self, version: int) -> None:
        """The watch has told all that was written up to this version of pods."""
        self._told = version

    def put(self, pod: Object) -> None:
        """The watch says that there is this pod, new or changed."""
        self._keep(pod)

    def wrote(self, pod: Object) -> None:
        """The answer to a write of ours: the watch may have told what is newer, or its end."""
        known = self._known.get(pod["metadata"]["uid"])
        if version_of(pod) > (version_of(known) if known else self._told):
            self._keep(pod)

    def drop(self, pod: Object) -> None:
        """This pod is gone."""
        uid = pod["metadata"]["uid"]
        if (known := self._known.pop(uid, None)) is not None:
            _take_out(self._nodes, pods.node_of(known), uid)
            _take_out(self._jobs, pods.owner_uid(known), uid)
            for tell in self._gone:
                tell(pod)
        self._given_up.discard(uid)
        self.ring(uid)

    def give_up(self, uid: str) -> None:
        """Nobody wants this pod any more: for those who wait for it, it is gone."""
        if uid in self._known:
            self._given_up.add(uid)
        self.ring(uid)

    def when_gone(self, tell: Callable[[Object], None]) -> None:
        """Call `tell` with each pod that goes."""
        self._gone.append(tell)

    def when_news(self, tell: Callable[[Object], None]) -> None:
        """Call `tell` with each pod that comes, runs, or is hindered by something else."""
        self._news.append(tell)

    def when_starved(self, tell: Callable[[Object], None]) -> None:
        """Call `tell` with each pod whose executor was killed for memory since it was last seen."""
        self._starved.append(tell)

    def get(self, uid: str) -> Object | None:
        return self._known.get(uid)

    def on(self, node: str) -> list[Object]:
        """All that are for this node, those that end among them."""
        return list(self._nodes.get(node, {}).values())

    def of(self, job: str) -> list[Object]:
        """All of the job with this UID, those that end among them."""
        return list(self._jobs.get(job, {}).values())

    def hindrance(self, job: str) -> str:
        """What keeps the first of them that does not run from it; "" if nothing does."""
        return next(filter(None, map(pods.hindrance, self.of(job))), "")

    def count(self, job: str) -> int:
        """How many `of` gives."""
        return len(self._jobs.get(job, ()))

    def living(self, node: str, owner: Object) -> Object | None:
        """The pod for this node of this TrainingJob, if it is there to stay."""
        for pod in self.on(node):
            if pods.works_for(pod, owner) and not pods.end(pod) and self.stays(pod):
                return pod
        return None

    def all(self) -> Iterator[Object]:
        yield from self._known.values()

    def next_incarnation(self, job: str, slot: int) -> int:
        return self._incarnations.get((job, slot), 0) + 1

    def skip(self, job: str, slot: int, incarnation: int) -> None:
        """This number is used up, by a pod that is not seen here."""
        self._incarnations[job, slot] = max(incarnation, self._incarnations.get((job, slot), 0))

    async def until(self, uid: str, fact: Callable[[Object | None], bool]) -> Object | None:
        """The pod (None: it is gone, or given up) once `fact` holds of it."""
        while not fact(pod := None if uid in self._given_up else self.get(uid)):
            bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._bells[uid].append(bell)
            await bell
        return pod

    def stays(self, pod: Object) -> bool:
        """Nobody ends it, or is going to."""
        return not pods.ending(pod) and pod["metadata"]["uid"] not in self._given_up

    def ring(self, uid: str) -> None:
        """Have whoever waits for this pod look again."""
        for bell in self._bells.pop(uid, ()):
            if not bell.done():
                bell.set_result(None)

    def _keep(self, pod: Object) -> None:
        """One that is none of ours is passed over."""
        node, job = pods.node_of(pod), pods.owner_uid(pod)
        if not node or not job:
            return
        uid = pod["metadata"]["uid"]
        known = self._known.get(uid)
        if known and pods.node_of(known) != node:  # somebody rewrote it
            _take_out(self._nodes, pods.node_of(known), uid)
        self._known[uid] = self._nodes[node][uid] = self._jobs[job][uid] = pod
        slot = job, pods.number(pod, names.SLOT)
        incarnation = pods.number(pod, names.INCARNATION)
        self._incarnations[slot] = max(incarnation, self._incarnations.get(slot, 0))
        self.ring(uid)
        if known is not None and pods.starved(pod) not in ("", pods.starved(known)):
            for tell in self._starved:
                tell(pod)
        if known is None or _shown(known) != _shown(pod):
            for tell in self._news:
                tell(pod)


def _shown(pod: Object) -> tuple[bool, str]:
    """What people are told of a pod."""
    return pods.ready(pod), pods.hindrance(pod)


def _take_out(shelf: defaultdict[str, dict[str, Object]], name: str, uid: str) -> None:
    """The pod is gone; a name that has no other goes too."""
    del shelf[name][uid]
    if not shelf[name]:
        del shelf[name]
