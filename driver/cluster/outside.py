"""What is around a driver: its cluster, who may connect as a node, and what else follows its state.

`main` makes one `Outside`: `Local` here, or that of Kubernetes, which is imported only where it is
used. Must not decide.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

from holdfast.driver.adapters.local_cluster import LocalCluster
from holdfast.driver.adapters.no_cluster import NoCluster
from holdfast.driver.adapters.tokens import Tokens
from holdfast.driver.adapters.websocket.sessions import Sessions
from holdfast.driver.core.state.model import State
from holdfast.driver.extras import not_installed
from holdfast.driver.loop import Loop
from holdfast.driver.people.access import People, TokenHolders
from holdfast.driver.ports import Cluster, Figure
from holdfast.driver.settings import Settings
from holdfast.driver.watch import Watch
from holdfast.kit.clock import Clock
from holdfast.protocol.nodeenv import Drivers

Follow = Callable[[State], None]


class SeenCluster(Cluster, Protocol):
    """A cluster that says what there is to see."""

    @property
    def executors_first(self) -> bool:
        """Whether a node has an executor before a job has the node."""
        ...

    def absent(self) -> Mapping[str, str]:
        """The nodes that it has and that are not there now, each with why."""
        ...

    def hindrance(self, job: str) -> str:
        """What keeps an executor of the job from running on a node that it has; "" if nothing."""
        ...

    def away(self) -> str:
        """Why nothing is known of nodes now, in a sentence; "" if all is well."""
        ...


class Outside(Protocol):
    """See the module."""

    @property
    def cluster(self) -> SeenCluster: ...

    @property
    def people(self) -> People:
        """Who may ask what of the driver."""
        ...

    def figures(self) -> Iterable[Figure]:
        """What Prometheus is told of it."""
        ...

    async def refusal(self, node: str, token: str) -> str:
        """Why a process with this token may not connect as `node`; "" where it may.

        Raises `TemporaryError` while nobody can say.
        """
        ...

    async def seen(self) -> None:
        """Return once all nodes, and who may connect, are known. After `start`."""
        ...

    def start(
        self, loop: Loop, watch: Watch, sessions: Sessions, group: asyncio.TaskGroup
    ) -> tuple[Follow, list[asyncio.Task[None]]]:
        """Begin, before the loop does; who is to be shown each committed state, and the tasks."""
        ...


class Local:
    """Nodes of a keeper, which all have the one token of nodes."""

    def __init__(self, cluster: LocalCluster | NoCluster, tokens: Tokens) -> None:
        self.cluster = cluster
        self.refusal = tokens.refusal
        self.people = TokenHolders(tokens)

    def figures(self) -> Iterable[Figure]:
        return ()

    async def seen(self) -> None:
        """Any node with the token may connect."""

    def start(
        self, loop: Loop, watch: Watch, sessions: Sessions, group: asyncio.TaskGroup
    ) -> tuple[Follow, list[asyncio.Task[None]]]:
        return lambda _: None, []


async def check_rights(settings: Settings) -> None:
    """Raise `PermanentError` where the cluster does not let this driver do what it will have to."""
    if settings.cluster == "local":
        return
    try:
        from holdfast.driver.adapters.kubernetes import wiring
    except ModuleNotFoundError as error:
        raise not_installed("cluster kubernetes", error, "kubernetes") from error
    await wiring.check_rights(settings)


@asynccontextmanager
async def outside(
    settings: Settings, tokens: Tokens, *, clock: Clock, listening: Drivers
) -> AsyncIterator[Outside]:
    """What the settings say. `listening`: where this driver can be reached.

    Raises `PermanentError` where Kubernetes is wanted and its library is not there.
    """
    if settings.cluster == "local":
        yield Local(LocalCluster(settings.keeper) if settings.keeper else NoCluster(), tokens)
        return
    try:
        from holdfast.driver.adapters.kubernetes.wiring import kubernetes
    except ModuleNotFoundError as error:
        raise not_installed("cluster kubernetes", error, "kubernetes") from error
    urls = settings.driver_urls.split(",") if settings.driver_urls else listening.urls
    drivers = Drivers(urls, listening.ca, settings.traces, settings.traces_secret)
    async with kubernetes(settings, tokens, clock=clock, drivers=drivers) as made:
        yield made
