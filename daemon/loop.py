"""The daemon's loop: samples ten times a second, heartbeats at the driver's period, urgent at once.

Made by `main`. The only place where samplers, probes and the link meet. Must not judge.
"""

import asyncio
from collections import deque
from contextlib import suppress
from pathlib import Path

from holdfast.daemon import serving
from holdfast.daemon.bursts.taker import Taker
from holdfast.daemon.link import Link
from holdfast.daemon.metrics import Figures
from holdfast.daemon.probes import responder
from holdfast.daemon.probes.prober import Prober
from holdfast.daemon.samplers import gpus
from holdfast.daemon.samplers.flows import Flows
from holdfast.daemon.samplers.gpus import Gpus
from holdfast.daemon.samplers.guard import Guard
from holdfast.daemon.samplers.logs import KernelLog
from holdfast.daemon.samplers.nccl import NcclWords
from holdfast.daemon.samplers.nics import Nics
from holdfast.daemon.samplers.outputs import Outputs
from holdfast.daemon.samplers.pressure import HostPressure
from holdfast.daemon.samplers.processes import Sibling
from holdfast.daemon.samplers.progress import Progress
from holdfast.daemon.samplers.ras import Ras
from holdfast.daemon.samplers.readings import sendable
from holdfast.daemon.samplers.starved import Whose
from holdfast.daemon.samplers.tail import KernelMessages, Tail
from holdfast.daemon.settings import Settings
from holdfast.daemon.tracing.sampler import Traces
from holdfast.kit.clock import Clock
from holdfast.kit.logs import LazyLogger
from holdfast.protocol.messages import (
    Acknowledged,
    AskBurst,
    Heartbeat,
    Hello,
    LogHit,
    NicRates,
    Pressure,
    RankProgress,
    Refused,
    ToDaemon,
    WatchOrder,
    Welcome,
)
from holdfast.protocol.paths import NodePaths
from holdfast.protocol.version import PROTOCOL_VERSION

SAMPLE_S = 0.1
MISSED_PERIODS = 3
"""Acknowledgements missing for so many periods: the connection is half open, make another."""
LAST_WORDS_S = 0.7
"""Of a daemon that has to end, to be heard by the driver: its host kills it after a second."""
HITS = 256
"""Log hits kept until the driver has acknowledged them."""

MOST_SAID, SAID_CHARACTERS = 8, 200
"""Of what cannot be read, in one heartbeat."""

_log = LazyLogger()


class Daemon:
    """One node's watcher."""

    def __init__(self, settings: Settings, clock: Clock, incarnation: str, parent: int) -> None:
        self._settings, self._clock = settings, clock
        self._incarnation = incarnation
        self._began_s = clock.monotonic_s()
        paths = settings.paths
        self._progress = Progress(paths.rings)
        sys = paths.sys if paths.sys.is_dir() else Path("/sys")
        self._nics = Nics(sys, settings.interface)
        self._flows = Flows(self._progress.pids)
        self._kernel = KernelLog(_kernel_source(paths), Whose(self._progress.pids))
        self._outputs = Outputs(paths.outputs, paths.outputs_read)
        self._pressure = HostPressure(paths.scratch)
        self._gpus = Gpus(gpus.source(paths.gpus, emulated=_is_emulated(paths)))
        self._nccl = NcclWords(Ras(clock))
        traces = settings.traces, settings.traces_password()
        self._traces = Traces(clock, settings.node, paths, *traces)
        self._executor = Sibling(parent)
        self._guard = Guard()
        self._prober = Prober(clock, settings.probe_port)
        self._link = Link(settings, _hello(settings, incarnation))
        self._figures = Figures()
        self._bursts = Taker(settings.node, settings.interface, sys, self._link.send)
        self._period_s = 1.0
        self._told = (0, 0)  # by the newest `WatchOrder` of the connection: term and number
        self._sequence = self._answered_at = 0
        self._answered_s = self._began_s
        self._hits: deque[tuple[int, LogHit]] = deque(maxlen=HITS)
        self._rates: tuple[NicRates, ...] = ()
        self._executor_alive = True
        self._urgent = False
        self._wake, self._heard = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """For ever, or until cancelled."""
        server = await responder.serve(self._settings.address, self._settings.probe_port)
        told = await serving.serve(self._settings.metrics, self._figures)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._link.run(self._received))
                group.create_task(self._prober.run())
                group.create_task(self._sample())
                group.create_task(self._beat())
        finally:
            self._traces.close()
            await self._bursts.close()
            for each in filter(None, (server, told)):
                each.close()

    async def last_words(self) -> None:
        """Before it ends: what ranks printed and nobody has read yet, told if the driver is there.

        A rank may have lived for milliseconds, and the node may go because of its end.
        """
        now, none = self._clock.monotonic_s(), list[LogHit]()
        hits = self._guard.ask("outputs", lambda: self._outputs.last_hits(now), none)
        self._hits.extend((0, hit) for hit in hits)
        if not self._hits:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                sent = await self._link.send(self._heartbeat(urgent=True))
                while sent and self._hits:
                    self._heard.clear()
                    await self._heard.wait()

    async def _received(self, message: ToDaemon) -> None:
        match message:
            case Welcome():
                self._answered()
                self._traces.clocks.renew()
                self._told = (0, 0)
                self._wake.set()
            case Acknowledged():
                self._answered()
                times = message.sent_s, message.came_s, message.answered_s
                self._traces.clocks.heard(*times, self._clock.monotonic_s())
                while self._hits and 0 < self._hits[0][0] <= message.sequence:
                    self._hits.popleft()
                self._heard.set()
            case WatchOrder():
                self._follow(message)
            case AskBurst():
                self._bursts.ask(message)
            case Refused():
                _log.warning("driver refused", what=message.what, why=message.why, fix=message.fix)

    def _follow(self, order: WatchOrder) -> None:
        """Do what it says, where it is not a late one."""
        if (told := (order.term, order.number)) < self._told:
            return
        self._told = told
        self._period_s = order.heartbeat_period_s
        self._wake.set()
        self._prober.use(dict(order.neighbours), order.probe_port)
        self._guard.ask("traces", lambda: self._traces.follow(order.traced), None)

    def _answered(self) -> None:
        """The driver is there, whatever of all that it was told it has kept by now."""
        self._answered_at = self._sequence
        self._answered_s = self._clock.monotonic_s()

    async def _sample(self) -> None:
        while True:
            pause = asyncio.create_task(asyncio.sleep(SAMPLE_S))
            if self._look():
                self._urgent = True
                self._wake.set()
            await pause

    def _look(self) -> bool:
        """Look at all that may be urgent; whether something is."""
        now, ask = self._clock.monotonic_s(), self._guard.ask
        none: list[LogHit] = []
        ranks = ask("progress", lambda: self._progress.sample(now), False)
        ask("traces", self._traces.look, None)
        down = ask("nics", self._nics.went_down, False)
        kernel = ask("kernel log", lambda: self._kernel.hits(now), none)
        logs = ask("outputs", lambda: self._outputs.hits(now), none)
        news = bool(logs) and not self._hits
        self._hits.extend((0, hit) for hit in kernel + logs)
        alive = ask("executor", self._executor.alive, self._executor_alive)
        gone, self._executor_alive = self._executor_alive and not alive, alive
        return ranks or down or gone or bool(kernel) or news

    async def _beat(self) -> None:
        while True:
            self._wake.clear()
            urgent, self._urgent = self._urgent, False
            beat = self._heartbeat(urgent)
            sent = await self._link.send(beat)
            self._figures.told(beat, sent=sent)
            if sent:
                self._check_answers()
            try:
                async with asyncio.timeout(self._period_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _heartbeat(self, urgent: bool) -> Heartbeat:
        now, ask = self._clock.monotonic_s(), self._guard.ask
        self._sequence += 1
        self._hits = deque(((at or self._sequence, hit) for at, hit in self._hits), maxlen=HITS)
        nobody: tuple[RankProgress, ...] = ()
        ranks = ask("progress", lambda: self._progress.ranks(now), nobody)
        return Heartbeat(
            node=self._settings.node,
            incarnation=self._incarnation,
            sequence=self._sequence,
            uptime_s=now - self._began_s,
            executor_alive=self._executor_alive,
            ranks=ranks,
            nics=ask("nics", lambda: self._nics.sample(now), ()),
            flows=ask("flows", lambda: self._flows.sample(now), ()),
            probes=self._prober.probes(),
            logs=tuple(hit for _, hit in self._hits),
            pressure=ask("pressure", self._pressure.sample, Pressure()),
            urgent=urgent,
            gpus=ask("GPUs", lambda: self._gpus.sample(now), ()),
            nccl=ask("NCCL", lambda: self._nccl.sample(ranks, now), None),
            unreadable=self._unreadable(),
            sent_s=self._clock.monotonic_s(),
        )

    def _unreadable(self) -> tuple[str, ...]:
        """What cannot be read now, in few words: people see it with the node."""
        host = (self._nics, self._flows, self._kernel, self._pressure)
        samplers = (*host, self._outputs, self._gpus, self._nccl, self._traces)
        said = [each for sampler in samplers for each in sampler.unreadable]
        said += [*self._guard.unreadable, *self._progress.unreadable]
        more = [f"and {len(said) - MOST_SAID} more"] if len(said) > MOST_SAID else []
        return tuple(sendable(each)[:SAID_CHARACTERS] for each in [*said[:MOST_SAID], *more])

    def _check_answers(self) -> None:
        """A driver that acknowledges nothing for some periods is behind a dead connection."""
        waited_s = self._clock.monotonic_s() - self._answered_s
        unanswered = self._sequence - self._answered_at
        if unanswered > MISSED_PERIODS and waited_s > MISSED_PERIODS * self._period_s:
            self._link.give_up()


def _kernel_source(paths: NodePaths) -> Tail | KernelMessages:
    """An emulated node has a feed of its own; the machine's log is then not its."""
    return Tail(paths.kernel_log) if _is_emulated(paths) else KernelMessages()


def _is_emulated(paths: NodePaths) -> bool:
    return paths.kernel_log.exists() or paths.sys.is_dir()


def _hello(settings: Settings, incarnation: str) -> Hello:
    return Hello(
        protocol=PROTOCOL_VERSION,
        process="daemon",
        node=settings.node,
        incarnation=incarnation,
        address=settings.address,
        bursts=True,
    )
