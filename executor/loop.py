"""Where the executor's core meets the world: events in, actions out, in order.

Called by `executor.main` and by the adapters, through `tell`. The only place that knows them all.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path

import msgspec

from holdfast.executor import meeting
from holdfast.executor.adapters.children import Children
from holdfast.executor.adapters.echo import Echo
from holdfast.executor.adapters.hardware import hardware
from holdfast.executor.adapters.reentry import Reentry
from holdfast.executor.adapters.sweep import Sweep
from holdfast.executor.agent import Agent
from holdfast.executor.answers import Answers
from holdfast.executor.core import actions as do
from holdfast.executor.core import events as ev
from holdfast.executor.core.converge import next_deadline, step
from holdfast.executor.core.fence import Fence
from holdfast.executor.core.model import State, warm_key
from holdfast.executor.core.observe import free, observed
from holdfast.executor.diagnosing import diagnose
from holdfast.executor.lastlines import LeftHere
from holdfast.executor.link import Link
from holdfast.executor.ranks import Ranks
from holdfast.executor.rendezvous import RendezvousHost
from holdfast.executor.settings import Settings
from holdfast.executor.spawner import Spawner
from holdfast.kit.clock import Clock
from holdfast.kit.files import write_atomic
from holdfast.kit.ids import new_id
from holdfast.kit.logs import LazyLogger
from holdfast.protocol.messages import (
    AskLog,
    AskStacks,
    Desired,
    DiagnosticOrder,
    Hello,
    Message,
    Observed,
    Welcome,
)
from holdfast.protocol.version import PROTOCOL_VERSION

FIRST_LOOK_S = 0.5
"""After a start: then the next one is made ready for, too."""
LOOK_EVERY_S = 3.0
"""While ranks run: how often to see whether they have imported more than the launcher has, and
whether the kernel has killed anything for want of memory."""
MEETING_S = 2.0
"""After the first rank has ended at Ctrl-C: the others mostly end in this time by themselves, and
no more than these can meet."""

_log = LazyLogger()


class Executor:
    """One node's executor, in one event loop."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        node = settings.node
        self._state = State(
            node=node.name,
            incarnation=new_id("x"),
            fence=_load(node.paths.executor_state),
            warmed=warm_key(settings.expected) if settings.expected else None,
        )
        self._events: deque[ev.AnyEvent] = deque()
        self._sequence = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._clearing: asyncio.Task[None] | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._free = asyncio.Event()
        self._leaving = False
        self._children = Children()
        self._spawner = Spawner(
            self._children,
            node.paths.scratch / "imports",
            lambda state: self.tell(ev.LauncherChanged(state=state)),
            settings.launcher,
        )
        echo = Echo() if settings.show_output else None
        self._reentry = Reentry(self._children)
        self._ranks = Ranks(self._spawner, self._reentry, node, self.tell, echo=echo)
        self._left_here = LeftHere()
        self._agent = Agent(self._children, node.paths, self.tell)
        self._rendezvous = RendezvousHost(self._spawner, settings.address, self.tell)
        self._sweep = Sweep(self._children, self._kept, lambda: self._spawner.launcher.busy)
        self._answers = Answers(self._children, self._ranks)
        self._link = Link(settings, self)

    async def run(self) -> None:
        """Serve until cancelled; then nothing that was started here is left."""
        self._children.start()
        self._reentry.open()
        if self._settings.expected is not None:
            self._spawner.warm(self._settings.expected)
            self._agent.be_ready()
        link = asyncio.create_task(self._link.run())
        free = asyncio.create_task(self._free.wait())
        try:
            await asyncio.wait((link, free, self._failed), return_when=asyncio.FIRST_COMPLETED)
            if not free.done():
                (self._failed if self._failed.done() else link).result()
        finally:
            link.cancel()
            free.cancel()
            await self._end()

    def leave(self) -> None:
        """End, but not before nothing is wanted here: the driver has time to save and to move."""
        self._leaving = True
        self._leave_if_free()

    def _leave_if_free(self) -> None:
        if self._leaving and free(self._state, self._now()):
            self._free.set()

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._spawner.launcher.close("the executor ends")
        self._agent.close()
        self._reentry.close()
        await self._sweep.clear(0, ())
        self._ranks.close()

    # ------------------------------------------------------------ events and actions

    def tell(self, event: ev.AnyEvent) -> None:
        """Take `event` in, after those that are being taken in now."""
        self._events.append(event)
        if len(self._events) > 1:
            return
        try:
            while self._events:
                self._state, actions = step(self._state, self._events[0], self._now())
                for action in actions:
                    self._perform(action)
                self._events.popleft()
        except Exception as error:
            self._fail(error)
            raise
        self._link.changed()
        self._set_tick()
        self._leave_if_free()

    def _perform(self, action: do.AnyAction) -> None:
        match action:
            case do.Remember(fence=fence):
                self._remember(fence)
            case do.Answer(refused=refused):
                _log.warning("refused", why=refused.why)
                self._link.answer(refused)
            case do.Warm(task=task):
                self._spawner.warm(task)
            case do.Clear():
                self._clear(action)
            case do.HostRendezvous():
                self._spawn(self._rendezvous.start(action))
            case do.StartRanks():
                self._spawn(self._run_ranks(action))
            case do.RunDiagnostic(order=order):
                self._spawn(self._diagnose(order))
            case do.OrderAgent(order=order):
                self._agent.order(order)

    def _clear(self, order: do.Clear) -> None:
        """Begin to end what runs; or, when that has begun with grace, end it now."""
        if self._clearing is not None and not self._clearing.done():
            self._sweep.hurry()
            return
        for task in self._tasks:
            task.cancel()
        self._clearing = asyncio.create_task(self._cleared(order))
        self._clearing.add_done_callback(self._check)

    async def _cleared(self, order: do.Clear) -> None:
        ranks = {pid: rank for rank, pid in self._ranks.pids.items()}
        if not order.rest:
            self._reentry.drop()
        self._reentry.ask(ranks if order.rest else ())
        lonely = asyncio.create_task(self._end_meeting(ranks if order.interrupt else ()))
        killed = await self._sweep.clear(order.grace_s, tuple(ranks), interrupt=order.interrupt)
        lonely.cancel()
        if await self._reentry.rested():
            await self._sweep.clear(0.0, ())
        self._ranks.cleared()
        wanted = self._state.desired.job if self._state.desired else None
        if wanted is None:
            self._spawner.hold_ready(0)
        if self._settings.show_output:
            for last in self._left_here.told(wanted):
                self._link.answer(last)
        told = tuple(sorted(ranks[pid] for pid in killed))
        self.tell(ev.Cleared(killed=told, resting=bool(self._reentry.pids)))

    async def _end_meeting(self, ranks: Collection[int]) -> None:
        """Who waits in C++ to meet one that Ctrl-C has ended hears of neither before that wait is
        over."""
        while ranks and len(self._sweep.running(ranks)) == len(ranks):
            await asyncio.sleep(MEETING_S / 4)
        await asyncio.sleep(MEETING_S)
        if ranks:
            self._rendezvous.end()

    def _kept(self) -> set[int]:
        """Processes that a Clear leaves alone."""
        agent = () if self._agent.pid is None else (self._agent.pid,)
        return {*self._spawner.launcher.pids, *self._reentry.pids, *agent}

    async def _run_ranks(self, order: do.StartRanks) -> None:
        self._left_here.started(order.desired)
        self._watch_meeting(order.desired)
        await self._ranks.start(order)
        wait_s = FIRST_LOOK_S
        while self._ranks.pids:
            await asyncio.sleep(wait_s)
            self._spawner.learn()
            self._spawner.hold_ready(len(order.seats) + order.desired.host_rendezvous)
            self._ranks.look()
            wait_s = LOOK_EVERY_S

    def _watch_meeting(self, desired: Desired) -> None:
        """Until its ranks are cleared: where they meet is looked at from the first node alone."""
        if desired.job and desired.task and desired.task.rendezvous and desired.host_rendezvous:
            url = desired.task.rendezvous
            self._spawn(meeting.watched(self.tell, desired.job, desired.epoch, url))

    async def _diagnose(self, order: DiagnosticOrder) -> None:
        result = await diagnose(self._spawner, self._settings.node, order)
        self.tell(ev.DiagnosticEnded(result=result))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._check)

    def _check(self, task: asyncio.Task[None]) -> None:
        """A mistake of ours ends the executor: its host starts another, in a state we know."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self._failed.done():
            self._failed.set_exception(error)

    def _remember(self, fence: Fence) -> None:
        path = self._settings.node.paths.executor_state
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, msgspec.json.encode(fence), durable=True)
        except OSError as error:
            _log.error("cannot remember the order", path=str(path), why=error.strerror)

    def _set_tick(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
        now = self._now()
        if (deadline := next_deadline(self._state, now)) is not None:
            loop = asyncio.get_running_loop()
            self._tick = loop.call_later(deadline - now, self.tell, ev.Ticked())

    def _now(self) -> float:
        return self._clock.monotonic_s()

    # ------------------------------------------------------------ behind the link

    def hello(self) -> Hello:
        fence = self._state.fence
        return Hello(
            protocol=PROTOCOL_VERSION,
            process="executor",
            node=self._state.node,
            incarnation=self._state.incarnation,
            address=self._settings.address,
            hardware=hardware(),
            generation=fence.generation,
            epoch=fence.epoch,
            term=fence.term,
        )

    def observe(self) -> Observed:
        self._sequence += 1
        return observed(self._state, sequence=self._sequence, now=self._now())

    def welcomed(self, welcome: Welcome) -> None:
        self._left_here.keeps_bytes = welcome.keeps_bytes

    def instructed(self, desired: Desired) -> None:
        self._answers.remember(desired)
        self.tell(ev.Instructed(desired=desired))

    def asked(self, question: AskStacks | AskLog, answer: Callable[[Message], None]) -> None:
        self._spawn(self._answers.to(question, answer))


def _load(path: Path) -> Fence:
    """What an earlier incarnation accepted; a fence that knows nothing where there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Fence)
    except FileNotFoundError:
        return Fence()
    except (OSError, msgspec.DecodeError) as error:
        _log.error("what was accepted before is lost", path=str(path), why=str(error))
        return Fence()
