"""Puts the marks of a distrusted node on it, and takes them off.

Used by `cluster`; what the marks are says `marks`.
"""

from collections.abc import Callable
from typing import Any

from holdfast.driver.adapters.kubernetes import marks
from holdfast.driver.adapters.kubernetes.retry import retry
from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.kit.clock import Clock
from holdfast.kit.logs import LazyLogger
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client, Patch
from holdfast.kubeapi.errors import AlreadyExists, NotFound

Object = dict[str, Any]

_log = LazyLogger()


class Marking:
    """Writes to Node objects, each write refused where the node has changed meanwhile."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def distrust(self, node: str, *, incident: int, reason: str) -> Object | None:
        """The marked Node; None where there is none."""
        at = self._now()
        taken_off: list[Object] = []

        def mark(seen: Object) -> Object | None:
            if marks.marked(seen, incident=incident):
                return None
            if marks.taken_off(seen):
                taken_off[:] = [seen]
            return marks.distrust(seen, incident=incident, reason=reason, at=at)

        condition = marks.condition(distrusted=True, why=reason, at=at)
        marked = await self._mark(node, mark, condition)
        for seen in taken_off:
            await self._say_that_it_came_back(seen, reason)
        return marked

    async def trust(self, node: str) -> Object | None:
        """The Node without our marks; None where there is none."""
        why = "Holdfast may use it again"
        condition = marks.condition(distrusted=False, why=why, at=self._now())
        return await self._mark(node, marks.trust, condition)

    async def _say_that_it_came_back(self, node: Object, reason: str) -> None:
        """By an Event, which is let go where it cannot be written: it is told once."""
        metadata = node["metadata"]
        at = self._clock.wall().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        name = f"{metadata['name']}.{metadata.get('uid', '')[:8]}.{metadata['resourceVersion']}"
        event = marks.came_back(node, reason=reason, at=at, name=name)
        try:
            await retry(lambda: self._client.create(paths.events(paths.DEFAULT), event))
        except AlreadyExists:
            return  # an answer was lost
        except (TemporaryError, PermanentError) as error:
            _log.warning("event let go", name=name, why=str(error))

    def _now(self) -> str:
        """RFC 3339 in UTC, whole seconds, as Kubernetes writes a time."""
        return self._clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ")

    async def _mark(
        self, node: str, mark: Callable[[Object], Object | None], condition: Object
    ) -> Object | None:
        """Patch the Node as `mark` says of its newest version, the condition first.

        Taint last: where it is, all is done. A node that is not there needs no mark.
        """

        async def once() -> Object:
            seen = await self._client.get(paths.nodes(node))
            if mark(seen) is None and not marks.denies(seen, condition):
                return seen
            if not marks.says(seen, condition):
                status = paths.nodes(node, "status")
                seen = await self._client.patch(status, condition, Patch.STRATEGIC)
            patch = mark(seen)
            return await self._client.patch(paths.nodes(node), patch) if patch else seen

        try:
            return await retry(once)
        except NotFound:
            _log.info("no node to mark", node=node)
            return None
