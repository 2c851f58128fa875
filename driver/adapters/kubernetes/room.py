"""Which nodes have room for a pod, by all pods of the cluster: so that nobody waits for one that is
known to be full.

Used by `cluster` and `placing`; `follow` has to run beside. Where nothing is known (rights that end
at a namespace, an API server that is away, a PriorityClass that was not listed) a node counts as
free of others: the scheduler says what it is. Must not keep a node from whoever could push others'
pods off it.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.driver.adapters.kubernetes import facts, priorities, requests, rights
from holdfast.driver.adapters.kubernetes.tally import Tally
from holdfast.driver.ports import Fits, PermanentError, TemporaryError
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.kubeapi.reflector import Changed, Reflector, Removed, Synced

Object = dict[str, Any]
Json = Mapping[str, Any]

SCHEDULED = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Selects the pods that take something of a node."""

ASKED_AGAIN_S = 600.0
"""Between looks whether all pods may be listed by now."""

KNOWN_WITHIN_S = 5.0
"""How long a start waits for the first list of all pods."""

UNSEEN = (
    "this driver may not list the pods of all namespaces, so it learns only by trying where others "
    "left room"
)


class Room:
    """`nodes`: Node objects by name, kept up by somebody else; `tell`: who hears that a node that
    was refused has room again. `namespace` is the one that the driver is for, "" for all.
    """

    def __init__(
        self,
        client: Client,
        nodes: Mapping[str, Object],
        *,
        namespace: str,
        tell: Callable[[Fits], None],
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._tell = tell
        self._tally = Tally({namespace} if namespace else None)
        self.reflector = Reflector(
            client, paths.pods(), mirror=self._tally, fieldSelector=SCHEDULED
        )
        self.classes = Reflector(client, paths.priority_classes())
        self._asked = asyncio.Event()  # all pods were listed, or may not be
        self._ranked = asyncio.Event()  # so were the PriorityClasses
        self._forbidden = ""
        self._refused: defaultdict[str, dict[str, Json]] = defaultdict(dict)  # pods by node, by job

    async def follow(self) -> None:
        """Keep up with all pods of the cluster, for ever."""
        while not await self._may():
            await asyncio.sleep(ASKED_AGAIN_S)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_classes())
            group.create_task(self._follow_pods())

    async def _follow_classes(self) -> None:
        async for change in self.classes.changes():
            if isinstance(change, Synced):
                self._ranked.set()
            self._look_again_everywhere()

    async def _follow_pods(self) -> None:
        async for change in self.reflector.changes():
            match change:
                case Synced():
                    self._asked.set()
                    self._look_again_everywhere()
                case Changed(share) | Removed(share):
                    self.look_again(share.node)

    async def known(self) -> None:
        """Return once it is known who is where, or that this will not be known soon."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KNOWN_WITHIN_S):
                await self._asked.wait()
                await self._ranked.wait()

    def unseen(self) -> str:
        """Why it is not known which nodes others have filled, in a sentence; "" where it is."""
        return self._forbidden

    def misfit(self, node: Json, pod: Json) -> str:
        """Why the pod cannot run on the node now; "" where it could, as far as is known."""
        return facts.misfit(node, pod) or self._full(node, pod["spec"])

    def refuse(self, job: str, pod: Json) -> dict[str, str]:
        """Why, by node, such a pod of the job cannot run on any of all those where it cannot; of
        each it is told once it could.
        """
        found = {}
        for name, node in self._nodes.items():
            if why := self.misfit(node, pod):
                found[name] = why
                self._refused[name][job] = pod
        return found

    def look_again(self, node: str) -> None:
        """The node, or what others have there, has changed."""
        known = self._nodes.get(node)
        for job, pod in tuple(self._refused.get(node, {}).items()):
            if known is None or not self.misfit(known, pod):
                del self._refused[node][job]
                self._tell(Fits(job=job, node=node))
        if not self._refused.get(node, True):
            del self._refused[node]

    def _look_again_everywhere(self) -> None:
        for node in tuple(self._refused):
            self.look_again(node)

    def _full(self, node: Json, spec: Json) -> str:
        least = priorities.least_that_stays(spec, self.classes.store)
        if least is None or not self._asked.is_set() or self.reflector.away():
            return ""
        used = self._tally.used(node["metadata"]["name"], least=least)
        return facts.lacking(node, requests.request_of_manifest(spec), used)

    async def _may(self) -> bool:
        """Whether all pods may be listed; asked, for each list that is forbidden is logged."""
        pods = rights.Rule("", "pods", ("list", "watch")).asked(namespace="")
        try:
            refused = await rights.missing(self._client, [*pods, *rights.OF_PRIORITIES.asked()])
        except (TemporaryError, PermanentError):
            return True  # nobody knows: who lists is told
        if refused:
            self._ranked.set()
        unseen = any(each in pods for each in refused)
        self._forbidden = UNSEEN if unseen else ""
        if unseen:
            self._asked.set()
        return not unseen
