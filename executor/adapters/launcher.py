"""The executor's end of the launcher: starts it, has it import, has it fork, starts it again.

Called by `executor.spawner`. Whatever is wrong with the launcher becomes `NoLauncher`, and the
caller starts the program without one.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from holdfast.executor.adapters.arrivals import Arrivals
from holdfast.executor.adapters.children import Children, Exit
from holdfast.executor.adapters.spares import Spares
from holdfast.executor.launcher import BOOT
from holdfast.executor.launcher.orders import (
    Begin,
    Declined,
    Fork,
    Forked,
    Import,
    Imported,
    Program,
    Spare,
)
from holdfast.executor.settings import Ready
from holdfast.kit.effort import Effort, Standstill, effort

STILL_LIMIT_S = 60.0
"""An import that gets on with nothing for so long is taken to hang. From a cold and slow disk torch
may take minutes, in which it reads."""
WARM_LIMIT_S = 1_800.0
"""The same of one that takes longer, whatever it does: it may be an endless loop."""
LOOK_S = 5.0
"""How often it is looked at while somebody waits for it."""
FORK_LIMIT_S = 20.0
"""A fork takes milliseconds, but the launcher may be in the middle of an import. As long again may
the process between take to end, which is a matter of milliseconds too."""
MAX_FAILURES = 3
"""Launchers that died before they were warm, in a row, until none is tried any more."""
FORCED = {"OPENBLAS_NUM_THREADS": "1"}
"""`import numpy` alone starts a thread otherwise."""


class NoLauncher(Exception):
    """There is no launcher to fork from; the message says why."""


class Launcher:
    """At most one launcher process, for one environment at a time."""

    def __init__(
        self,
        children: Children,
        on_state: Callable[[str], None],
        ready: Ready | None = None,
    ) -> None:
        """`ready`: the first one, where it is there already."""
        self._children = children
        self._ready = ready
        self._on_state = on_state
        self._decoder = msgspec.json.Decoder(Imported | Forked | Declined)
        self._link: socket.socket | None = None
        self._order: tuple[dict[str, str], str, list[str]] | None = None
        self._skip: set[str] = set()
        self._failures = 0
        self._ids = 0
        self._answers: dict[int, asyncio.Future[int]] = {}
        self._arrivals = Arrivals()
        self._spares = Spares(children)
        self._importing = False
        self._settled = asyncio.Event()
        self.pid: int | None = None
        self.state = "cold"
        self.has_torch = False

    @property
    def pids(self) -> set[int]:
        """Its own, and those of its spares: they are nobody's rank."""
        return {*self._spares.pids, *(() if self.pid is None else (self.pid,))}

    @property
    def busy(self) -> bool:
        """Whether a fork was ordered whose child is not ours yet.

        `FORK_LIMIT_S` bounds both, the answer and then the way to us: a launcher that takes longer
        is ended, and what was below it is ours.
        """
        return bool(self._answers or self._arrivals.coming())

    def prepare(self, env: Mapping[str, str], workdir: str, modules: Sequence[str]) -> None:
        """Have a launcher with this environment that has imported `modules`."""
        self.close("it is being replaced")
        self._order = (dict(env), workdir, list(modules))
        self._failures = 0
        self._start()

    def import_more(self, modules: Sequence[str]) -> None:
        """Import these as well, leaving the processor to the ranks that run."""
        if self._order is None or self.state != "warm":
            return
        known = set(self._order[2])
        more = [name for name in modules if name not in known and name not in self._skip]
        self._order[2].extend(more)
        if more:
            self._spares.drop()  # they would lack these
            self._importing = True
            self._send(Import(modules=tuple(more), gently=True))

    def hold_ready(self, spares: int) -> None:
        """Have so many children forked ahead, that wait for their programs."""
        self._spares.wanted = spares
        if not spares:
            self._spares.drop()
        self._fork_spares()

    def forced(self, env: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
        """What a child has to set and unset to be rid of the launcher's own environment."""
        given = {name: env[name] for name in FORCED if name in env}
        return given, tuple(name for name in FORCED if name not in env)

    async def warm(self) -> bool:
        """Whether there is one to fork from, once that is known. None was ordered on a node that
        has had no task yet.
        """
        if self._order is not None:
            await self._until_settled()
        return self._link is not None

    async def fork(self, program: Program, stdout: int, stderr: int) -> int:
        """The pid of a child that becomes `program`; waits for the warm-up. Raises `NoLauncher`."""
        if not await self.warm() or self._link is None:
            raise NoLauncher(self.state)
        order = Fork(id=self._next_id(), program=program)
        if (pid := self._spares.start(order, stdout, stderr)) is not None:
            return pid
        return await asyncio.shield(self._ordered(order, [stdout, stderr]))

    def _next_id(self) -> int:
        self._ids += 1
        return self._ids

    def _ordered(self, order: Fork | Spare, fds: list[int]) -> asyncio.Future[int]:
        """The pid of the child that is ordered, to come. Raises `NoLauncher`."""
        if self._link is None:
            raise NoLauncher(self.state)
        answer = self._answers[order.id] = asyncio.get_running_loop().create_future()
        try:
            socket.send_fds(self._link, [msgspec.json.encode(order)], fds)
        except OSError as error:
            del self._answers[order.id]
            raise NoLauncher(f"it cannot be reached: {error.strerror}") from error
        timer = asyncio.get_running_loop().call_later(FORK_LIMIT_S, self._expire, order.id)
        answer.add_done_callback(lambda _: timer.cancel())
        return answer

    def _fork_spares(self) -> None:
        if self.state == "warm" and not self._importing:
            for _ in range(self._spares.missing):
                self._fork_spare()

    def _fork_spare(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs, suppress(NoLauncher):  # it is being replaced, and asked again when it is warm
            answer = self._ordered(Spare(id=self._next_id()), [theirs.fileno()])
            answer.add_done_callback(self._spares.coming(ours))
            return
        ours.close()

    def close(self, why: str) -> None:
        """End the launcher; what was ordered and not answered fails with `why`."""
        if self._link is not None:
            asyncio.get_running_loop().remove_reader(self._link)
            self._link.close()
            self._link = None
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, 9)
            self.pid = None
        self._spares.drop()
        self._importing = False
        self._arrivals.forget()  # a sweep sees them now: this launcher is no longer kept
        self._fail(why)
        self._become(f"none: {why}")

    def _start(self) -> None:
        assert self._order is not None
        env, workdir, modules = self._order
        ready, self._ready = self._ready, None
        try:
            ours = self._begin(ready, env, workdir) if ready else self._spawn(env, workdir)
        except (OSError, ValueError) as error:  # ValueError: what no C string can carry
            self.close(f"it could not be started: {error}")
            return
        ours.setblocking(False)
        self._link = ours
        asyncio.get_running_loop().add_reader(ours, self._read)
        self._settled.clear()
        self._become("warming")
        self._send(Import(modules=tuple(name for name in modules if name not in self._skip)))

    def _begin(self, ready: Ready, env: dict[str, str], workdir: str) -> socket.socket:
        """It is warm for whatever has this environment: the keeper had that compared."""
        ours = socket.socket(fileno=ready.fd)
        ours.set_inheritable(False)
        self.pid = ready.pid
        self._children.watch(ready.pid, self._ended)
        with suppress(OSError):  # it has died, which its end will tell
            ours.send(msgspec.json.encode(Begin(environment=env | FORCED, workdir=workdir)))
        return ours

    def _spawn(self, env: dict[str, str], workdir: str) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-c", BOOT, "serve", str(theirs.fileno())]
        with theirs:
            try:
                self.pid = self._children.spawn(
                    command,
                    self._ended,
                    env=env | FORCED,
                    cwd=workdir,
                    pass_fds=[theirs.fileno()],
                )
            except (OSError, ValueError):
                ours.close()
                raise
        return ours

    def _ended(self, pid: int, _: Exit) -> None:
        if pid != self.pid:
            return
        self.pid = None
        self._failures += self.state != "warm"
        self.close("it died")
        if self._failures < MAX_FAILURES:
            self._start()

    def _expire(self, number: int) -> None:
        """No answer, whether or not anybody still waits for it: this launcher hangs."""
        if number in self._answers:
            self.close(f"it did not answer for {FORK_LIMIT_S:.0f} s")
            self._start()

    def _forked(self, number: int, pid: int) -> None:
        """An order is answered. Its child is on its way to us, also where nobody waits for it."""
        self._arrivals.expect(pid)
        asyncio.get_running_loop().call_later(FORK_LIMIT_S, self._check_arrival, pid)
        if (answer := self._answers.pop(number, None)) is not None and not answer.done():
            answer.set_result(pid)

    def _check_arrival(self, pid: int) -> None:
        """The process between has not ended: a sweep would wait for it for ever, and spare it."""
        if pid in self._arrivals.coming():
            self.close(f"a child of it did not end for {FORK_LIMIT_S:.0f} s")
            self._start()

    def _read(self) -> None:
        assert self._link is not None
        try:
            data = self._link.recv(65_536)
        except (BlockingIOError, ConnectionError):
            return
        if not data:
            asyncio.get_running_loop().remove_reader(self._link)
            return
        message: Imported | Forked | Declined = self._decoder.decode(data)
        match message:
            case Imported(torch=has_torch):
                self._failures, self.has_torch, self._importing = 0, has_torch, False
                self._settled.set()
                self._become("warm")
                self._fork_spares()
            case Forked(id=number, pid=pid):
                self._forked(number, pid)
            case Declined(why=why, module=module):
                self._replace(why, module)

    def _replace(self, why: str, module: str) -> None:
        """One that must not fork is of no use: another, without what spoiled it."""
        self.close(f"it refused to fork: {why}" + (f", after importing {module}" if module else ""))
        if module and self._order is not None:
            self._skip.add(module)
            self._start()

    def _send(self, order: Import) -> None:
        assert self._link is not None
        try:
            self._link.send(msgspec.json.encode(order))
        except OSError as error:
            self.close(f"it cannot be reached: {error.strerror}")

    def _fail(self, why: str) -> None:
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            if not answer.done():
                answer.set_exception(NoLauncher(why))
                answer.exception()

    def _become(self, state: str) -> None:
        if state.startswith("none"):
            self._settled.set()
        self.state = state
        self._on_state(state)

    async def _until_settled(self) -> None:
        loop = asyncio.get_running_loop()
        began_s, still = loop.time(), Standstill(self._effort(), loop.time())
        while not self._settled.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._settled.wait()
                    continue
            if still.look(self._effort(), loop.time()) > STILL_LIMIT_S:
                self.close(f"an import of it stood still for {STILL_LIMIT_S:.0f} s")
            elif loop.time() - began_s > WARM_LIMIT_S:
                self.close(f"it was not warm after {WARM_LIMIT_S:.0f} s")

    def _effort(self) -> Effort:
        return effort(self.pid) if self.pid is not None else Effort(0.0, 0)
