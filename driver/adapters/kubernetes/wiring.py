"""All that a driver has of Kubernetes, put together.

Used by `driver.main` where the cluster is Kubernetes, and imported only then: it needs the extra
`kubernetes`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager

from holdfast.driver.adapters.kubernetes import rights
from holdfast.driver.adapters.kubernetes.cluster import KubernetesCluster
from holdfast.driver.adapters.kubernetes.figures import figures
from holdfast.driver.adapters.kubernetes.identity import PodIdentity
from holdfast.driver.adapters.kubernetes.names import Jobs
from holdfast.driver.adapters.kubernetes.objects import TrainingJobs
from holdfast.driver.adapters.kubernetes.operator import Operator
from holdfast.driver.adapters.kubernetes.people import ClusterPeople
from holdfast.driver.adapters.tokens import Tokens
from holdfast.driver.adapters.websocket.sessions import Sessions
from holdfast.driver.core.state.model import State
from holdfast.driver.core.state.node import Held, Lent, Promised
from holdfast.driver.loop import Loop
from holdfast.driver.ports import Figure, PermanentError, TemporaryError
from holdfast.driver.settings import Settings
from holdfast.driver.watch import Watch
from holdfast.kit.clock import Clock
from holdfast.kit.logs import LazyLogger
from holdfast.kubeapi.client import Client, Limits
from holdfast.kubeapi.queue import KeyedQueue
from holdfast.protocol.nodeenv import Drivers
from holdfast.protocol.version import FIELD_MANAGER

USER_AGENT = FIELD_MANAGER

ANSWER_S = 5.0
"""Of the API server, before a driver leads: one that has none goes on without."""

ASKED_AGAIN_S = 30.0
"""By a driver that leads, until it knows that it has all its rights."""

AWAY_S = 5.0
"""Until a server is asked again that did not answer."""

_log = LazyLogger()


class Kubernetes:
    """The `Outside` of a driver in Kubernetes: its operator begins once there is a loop to ask."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        tokens: Tokens,
        *,
        clock: Clock,
        drivers: Drivers,
    ) -> None:
        self._client = client
        self._needed = _needed(settings)
        self._clock = clock
        self._jobs = Jobs(settings.namespace)
        self._objects = TrainingJobs(client, self._jobs)
        self.cluster = KubernetesCluster(
            client,
            self._objects,
            clock=clock,
            drivers=drivers,
            namespace=settings.namespace,
            node_selector=settings.node_selector,
            pod_groups=settings.pod_groups,
            placed_within_s=settings.placed_within_s,
        )
        self._identity = PodIdentity(
            client,
            self.cluster.book,
            hears=self.cluster.hears,
            listed=self.cluster.listed,
            clock=clock,
        )
        self._queue: KeyedQueue | None = None
        self.refusal = self._identity.refusal
        self.seen = self.cluster.listed
        self.people = ClusterPeople(client, self._jobs, tokens)

    def figures(self) -> Iterable[Figure]:
        """What Prometheus is told of the way to the API server; nothing before `start`."""
        followed = self.cluster.reflectors | self._objects.reflectors
        return figures(followed, self._queue) if self._queue is not None else ()

    def start(
        self, loop: Loop, watch: Watch, sessions: Sessions, group: asyncio.TaskGroup
    ) -> tuple[Callable[[State], None], list[asyncio.Task[None]]]:
        """Begin, before the loop does; who is to be shown each committed state, and the tasks."""
        operator = Operator(
            self._client,
            self._objects,
            loop=loop,
            watch=watch,
            book=self.cluster.book,
            clock=self._clock,
        )
        self._client.ask_before_changes(loop.term.certain)
        self._queue = operator.queue
        self.cluster.when_replaced(self._identity.when_gone(sessions.drop))
        present = [node.name for node in loop.state.nodes.values() if node.present]
        self.cluster.expect(held(loop.state), present)
        self.cluster.want(wanted(loop.state))

        def follow(state: State) -> None:
            self.cluster.want(wanted(state))
            operator.follow(state)

        return follow, [
            group.create_task(self.cluster.run()),
            group.create_task(operator.run()),
            group.create_task(self._confirm_rights()),
        ]

    async def _confirm_rights(self) -> None:
        """Once more, as soon as the server answers: much may have changed while this one waited.

        Who leads goes on without a right: what needs none is still worth having, and it says so.
        """
        while True:
            try:
                await rights.confirm(self._client, self._needed)
            except PermanentError as lacking:
                _log.error("rights missing", why=str(lacking))
                await asyncio.sleep(ASKED_AGAIN_S)
            except TemporaryError:  # the server is away: who follows it says so
                await asyncio.sleep(AWAY_S)
            else:
                return


async def check_rights(settings: Settings) -> None:
    """Raise `PermanentError` where this driver may not do what it will have to, before it leads.

    Where the API server does not answer, nobody knows: a driver that starts then leads
    nevertheless, for ranks may need it, and asks again (`Kubernetes.start`).
    """
    limits = Limits(answer_within_s=ANSWER_S)
    async with Client.of(settings.kubeconfig, user_agent=USER_AGENT, limits=limits) as client:
        try:
            await rights.confirm(client, _needed(settings, vital=True))
        except TemporaryError as error:
            _log.warning("rights unknown", why=str(error))


def _needed(settings: Settings, *, vital: bool = False) -> list[rights.Asked]:
    return rights.needed(
        namespace=settings.namespace,
        lease=settings.lease,
        pod_groups=settings.pod_groups,
        vital=vital,
    )


def held(state: State) -> Mapping[str, str]:
    """Jobs by the nodes on which the cluster confirmed an executor for them."""
    return {
        node.name: node.job
        for node in state.nodes.values()
        if node.job is not None and node.allocated
    }


def wanted(state: State) -> Collection[str]:
    """Nodes that jobs and exams have, or are to get."""
    nodes = state.nodes.values()
    return [node.name for node in nodes if isinstance(node.holding, Promised | Held | Lent)]


@asynccontextmanager
async def kubernetes(
    settings: Settings, tokens: Tokens, *, clock: Clock, drivers: Drivers
) -> AsyncIterator[Kubernetes]:
    """Connected as the kubeconfig says, else as this pod's service account."""
    async with Client.of(settings.kubeconfig, user_agent=USER_AGENT) as client:
        yield Kubernetes(client, settings, tokens, clock=clock, drivers=drivers)
