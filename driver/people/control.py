"""What people's side of the driver sees: `Control`. The REST application is built on it alone.

Made by `driver.main`, used by `driver.adapters.rest`. Must not decide anything: a request goes into
the loop as an event and comes back as the journal entry that it became.

    people = holdfast.driver.adapters.rest.app.make_app(control)   # routes for people
    app = sessions.before(people)                                  # WebSockets for nodes, by main
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from holdfast.driver.core.events import AnyEvent
from holdfast.driver.core.state.model import State
from holdfast.driver.follow.curves import Curves
from holdfast.driver.loop import Loop
from holdfast.driver.people.access import People
from holdfast.driver.people.bursts import Bursts
from holdfast.driver.people.goodput.ledger import Ledger
from holdfast.driver.ports import Entry, Figure, Journal, Key, LastLinesStore, Nodes
from holdfast.driver.settings import Settings
from holdfast.driver.watch import Watch
from holdfast.kit.clock import Clock

if TYPE_CHECKING:  # it brings an HTTP client along
    from holdfast.driver.follow.webhooks.receivers import Receivers


class Control:
    """One running driver, as its edge may use it. All on the driver's event loop."""

    def __init__(
        self,
        loop: Loop,
        *,
        journal: Journal,
        last_lines: LastLinesStore,
        nodes: Nodes,
        watch: Watch,
        people: People,
        settings: Settings,
        clock: Clock,
        away: Callable[[], str] = lambda: "",
        absent: Callable[[], Mapping[str, str]] = dict,
        hindrance: Callable[[str], str] = lambda _: "",
        executors_first: bool = True,
        figures: Callable[[], Iterable[Figure]] = tuple,
        webhooks: "Receivers | None" = None,
    ) -> None:
        self._loop = loop
        self.journal = journal
        self.last_lines = last_lines
        self.nodes = nodes
        self.bursts = Bursts(nodes, settings.state, clock, loop.now)
        self.watch = watch
        self.people = people
        self.settings = settings
        self.clock = clock
        self.ledger = Ledger()  # where the time of jobs went
        self.curves = Curves(watch, settings.paths, state=lambda: loop.state, now=loop.now)
        self.webhooks = webhooks  # None where nobody is told
        self.figures = figures  # what Prometheus is told of the cluster
        self.away = away  # why nothing is known of nodes now, in a sentence; "" if all is well
        self.absent = absent  # why nodes that the cluster has are not there, by name
        self.hindrance = hindrance  # what keeps an executor of the job from running; "" if nothing
        self.executors_first = executors_first  # on a node, before a job has it

    @property
    def state(self) -> State:
        """The state as last committed. Immutable: safe to keep while answering."""
        return self._loop.state

    @property
    def sequence(self) -> int:
        """Sequence number of the newest entry that is committed."""
        return self._loop.sequence

    @property
    def accepting(self) -> str | None:
        """None while new work is accepted, else the reason in a sentence (disk full, stopping)."""
        return self._loop.accepting

    @property
    def stale(self) -> bool:
        """Whether nothing can be written down now: what is told of jobs may be old."""
        return self._loop.stale

    def now(self) -> float:
        """Driver time in seconds: monotonic, kept across restarts; the clock of `Entry.now`."""
        return self._loop.now()

    async def request(self, event: AnyEvent, *, key: Key | None = None) -> Entry:
        """Put a person's request to the core; its entry, once that is committed.

        With a `key` that was used before for the same digest: the entry of the first request, and
        nothing is done again. Raises `Refused` (with the core's `Refusal`), `KeyReused` (same key,
        other digest), `NotAccepting` (with the sentence of `accepting`); then nothing changed.
        """
        return await self._loop.request(event, key=key)

    async def committed_beyond(self, sequence: int) -> None:
        """Return once an entry later than `sequence` is in the journal."""
        await self._loop.committed_beyond(sequence)
