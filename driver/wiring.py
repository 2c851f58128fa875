"""All parts of one driver, wired: the loop, the watch, nodes' sessions, people's side, effects.

Made by `driver.main` once it may lead. Must not serve: that is its caller's.
"""

import asyncio
import math
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from holdfast.driver.adapters.websocket.sessions import Sessions
from holdfast.driver.cluster.effect_runner import EffectRunner
from holdfast.driver.cluster.outside import Outside
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.model import State
from holdfast.driver.extras import not_installed
from holdfast.driver.follow.feed import Feed
from holdfast.driver.follow.guard import Guard
from holdfast.driver.journal.lastlines import KEEPS_BYTES, LastLinesKeeper
from holdfast.driver.journal.pruning import Pruner
from holdfast.driver.lead.standby import STEP_DOWN_S
from holdfast.driver.loop import Loop
from holdfast.driver.people.control import Control
from holdfast.driver.ports import EntryStore, Journal, LastLinesStore, PositionStore
from holdfast.driver.serve.probes import Readiness
from holdfast.driver.settings import Settings, tells_spans
from holdfast.driver.watch import Settings as WatchSettings
from holdfast.driver.watch import Watch
from holdfast.kit.clock import Clock, RunningClock

if TYPE_CHECKING:  # who tells nobody does not wait for its HTTP client
    from holdfast.driver.follow.spans import RecoverySpans
    from holdfast.driver.follow.webhooks.receivers import Receivers


class Driver:
    """All parts of one driver, wired."""

    def __init__(
        self,
        settings: Settings,
        *,
        journal: Journal,
        last_lines: LastLinesStore,
        entries: EntryStore,
        positions: PositionStore,
        outside: Outside,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._tasks: list[asyncio.Task[None]] = []
        self._effects: EffectRunner | None = None
        self._outside = outside
        self._step_down_s = STEP_DOWN_S if settings.standby else math.inf
        self.loop = Loop(journal, clock=clock, policy=_policy(settings))
        guard = Guard(self.loop.post, costs="nobody sees whether it stands still")
        seen = WatchSettings(heartbeat_period_s=settings.heartbeat_period_s)
        watch = self._watch = Watch(seen, guard=guard.around)
        running = self._running = RunningClock(self.loop.now, watch.stood_still)
        self._last_lines = LastLinesKeeper(last_lines, lambda: self.loop.state)
        self._beside = Guard(self.loop.post, costs="its curves have a hole")
        self._pruner = Pruner(entries, lambda: self.loop.state, keep=settings.keep_entries)
        self.sessions = Sessions(
            refusal=outside.refusal,
            watch=watch,
            emit=self.loop.post,
            term=lambda: self.loop.state.term,
            now=running.now,
            heartbeat_period_s=settings.heartbeat_period_s,
            keep=self._last_lines.told,
            keeps_bytes=KEEPS_BYTES,
            told_time=self.loop.now,
        )
        self._feed = Feed(
            watch,
            guard=guard,
            daemons=self.sessions.daemons,
            emit=self.loop.post,
            now=running.now,
        )
        self._webhooks = _receivers(settings, self.loop, journal, positions, clock)
        self._spans = _spans(clock)
        self.control = Control(
            self.loop,
            journal=journal,
            last_lines=last_lines,
            nodes=self.sessions,
            watch=watch,
            people=outside.people,
            settings=settings,
            clock=clock,
            away=outside.cluster.away,
            absent=outside.cluster.absent,
            hindrance=outside.cluster.hindrance,
            executors_first=outside.cluster.executors_first,
            figures=outside.figures,
            webhooks=self._webhooks,
        )

    def app(self) -> ASGIApp:
        """The whole application: people's routes and nodes' WebSockets.

        Its code takes half a second to load: call it in a thread, while a cluster is listed.
        """
        from holdfast.driver.adapters.rest.app import make_app

        return self.sessions.before(make_app(self.control))

    def answers(self, readiness: Readiness) -> None:
        """Say from now on what people are told, too. Nodes are heard from now on, and no sooner
        missed: to load the application, or to see the cluster, may take seconds.
        """
        self._watch.stood_still(self._running.now())
        readiness.why, readiness.away = lambda: self.control.accepting, self.control.away
        readiness.stale = lambda: self.control.stale

    async def start(self, group: asyncio.TaskGroup) -> None:
        """Take over from the driver before, then keep going in tasks of `group` until `leave`."""
        effects = self._effects = EffectRunner(
            cluster=self._outside.cluster,
            nodes=self.sessions,
            emit=self.loop.post,
            term=lambda: self.loop.state.term,
            group=group,
        )
        follow, tasks = self._outside.start(self.loop, self._watch, self.sessions, group)

        def show(state: State) -> None:
            self._feed.follow(state)
            if self._spans is not None:
                self._spans.follow(state, self.loop.now())
            self.control.bursts.follow(state)
            follow(state)

        keeping = group.create_task(self.loop.term.keep(step_down_s=self._step_down_s))
        self._tasks = [*tasks, keeping]
        await self.loop.start(perform=effects.start, follow=show)
        self._tasks += [
            group.create_task(self.loop.run()),
            group.create_task(self._last_lines.run()),
            group.create_task(self._pruner.run()),
            group.create_task(self.control.curves.run(self._beside.around)),
            group.create_task(self.control.bursts.run()),
            group.create_task(self._feed.tick(self._settings.watch_period_s)),
            group.create_task(self._feed.facts(self._outside.cluster)),
            *(self._webhooks.start(group) if self._webhooks else ()),
        ]

    def leave(self) -> None:
        """Begin nothing any more, and wait for nothing: the next driver goes on with it."""
        self.control.curves.write()
        for task in self._tasks:
            task.cancel()
        if self._effects is not None:
            self._effects.leave()


def _receivers(
    settings: Settings, loop: Loop, journal: Journal, positions: PositionStore, clock: Clock
) -> "Receivers | None":
    """None where nobody is to be told. Raises `PermanentError` with what is wrong in the file."""
    if settings.webhooks is None:
        return None
    from holdfast.driver.follow.webhooks import file, receivers, sender

    return receivers.Receivers(
        [
            sender.Sender(
                hook,
                journal=journal,
                positions=positions,
                newest=lambda: loop.sequence,
                beyond=loop.committed_beyond,
                clock=clock,
            )
            for hook in file.read(settings.webhooks)
        ]
    )


def _spans(clock: Clock) -> "RecoverySpans | None":
    """None where nobody takes them. Raises `PermanentError` where the extra is missing."""
    if not tells_spans():
        return None
    try:
        from holdfast.driver.follow.spans import RecoverySpans
    except ModuleNotFoundError as error:
        raise not_installed("OTEL_EXPORTER_OTLP_ENDPOINT", error, "otel") from error
    return RecoverySpans(clock)


def _policy(settings: Settings) -> Policy:
    """What the core is to decide by: its own figures, but for those that people set."""
    return Policy(
        connect_s=settings.connect_s,
        dry_run=settings.dry_run_evictions,
        requalify_after_s=settings.trial_after_s,
        standby_test_s=settings.standby_test_s,
    )
