"""No cluster: a driver that was started without one has no nodes, and says so when asked for some.

Made by `driver.main` where neither a keeper nor Kubernetes is given.
"""

import asyncio
from collections.abc import AsyncIterator

from holdfast.driver.ports import Fact, PermanentError


class NoCluster:
    """A `ports.Cluster` without nodes."""

    executors_first = True

    def absent(self) -> dict[str, str]:
        """There are none."""
        return {}

    def hindrance(self, job: str) -> str:
        """No job has a node."""
        return ""

    def away(self) -> str:
        """Why nothing is known of nodes, in a sentence."""
        return "no keeper is attached to this driver (start it with --keeper SOCKET)"

    async def facts(self) -> AsyncIterator[Fact]:
        await asyncio.Event().wait()
        yield Fact(node="")

    async def allocate(self, job: str, node: str) -> None:
        raise PermanentError(f"node {node}: this driver has no cluster. Start it with --keeper.")

    async def requalify(self, node: str, *, number: int, job: str, spec: bytes) -> None:
        raise PermanentError(f"node {node}: this driver has no cluster. Start it with --keeper.")

    def give_up(self, node: str) -> None:
        """Nothing is allocated here."""

    async def release(self, node: str) -> None:
        """Nothing is held here."""

    async def distrust(self, node: str, *, incident: int, reason: str) -> None:
        """Nobody else could use it."""

    async def trust(self, node: str) -> None:
        """Nobody distrusted it."""
