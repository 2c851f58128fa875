"""The checkpoint agent in the executor's care: started where a task is expected, else when first
needed, and again if it dies.

Called by `executor.loop` with orders; its reports become events. Must not look inside a snapshot.
"""

import asyncio
import importlib.util
import os
import signal
import sys
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from holdfast.checkpoint.agent_protocol import AgentOrder, line, report
from holdfast.executor.adapters.children import Children, Exit
from holdfast.executor.adapters.pipes import readable
from holdfast.executor.core import events as ev
from holdfast.executor.ranks import Tell
from holdfast.kit.backoff import full_jitter
from holdfast.kit.logs import LazyLogger
from holdfast.protocol.paths import NodePaths

MAX_FAILURES = 5
"""Agents in a row that died without a report, until none is tried any more."""

_log = LazyLogger()


class Agent:
    """At most one agent process. Each new one is told the newest order again, and before it the one
    of the ranks whose snapshots may still be due: a job is forgotten once these are written.
    """

    def __init__(self, children: Children, paths: NodePaths, tell: Tell) -> None:
        self._children = children
        self._paths = paths
        self._tell = tell
        self._order: AgentOrder | None = None
        self._seated: AgentOrder | None = None  # the newest with ranks, while theirs may be due
        self._stdin: int | None = None
        self._silent = 0
        self._waits = full_jitter(base_s=0.1, cap_s=2.0)
        self._readers: set[asyncio.Task[None]] = set()
        self.pid: int | None = None

    def order(self, order: AgentOrder) -> None:
        """Tell the agent; it is started if there is none."""
        self._order = order
        if order.ranks:
            self._seated = order
        elif self._seated is not None and not _leaves_due(self._seated, order):
            self._seated = None
        if self.pid is None:
            self._start()
        else:
            self._write(order)

    def be_ready(self) -> None:
        """Have one that waits for its first order."""
        if self.pid is None:
            self._start()

    def close(self) -> None:
        """End the agent: it ends by itself when its stdin closes, and is killed to be sure."""
        self._order = None
        self._kill()

    def _kill(self) -> None:
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _start(self) -> None:
        if importlib.util.find_spec("holdfast.checkpoint.agent") is None:
            self._tell(ev.AgentAbsent(why="holdfast.checkpoint.agent is not installed", final=True))
            return
        theirs_in, self._stdin = os.pipe()
        ours_out, theirs_out = os.pipe()
        try:
            self.pid = self._children.spawn(
                [sys.executable, "-P", "-m", "holdfast.checkpoint.agent"],
                self._ended,
                env={**os.environ, "PYTHONSAFEPATH": "1"},
                stdin=theirs_in,
                stdout=theirs_out,
            )
        except OSError as error:
            self._tell(ev.AgentAbsent(why=f"it could not be started: {error}", final=True))
            return
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        os.set_blocking(self._stdin, False)
        task = asyncio.get_running_loop().create_task(self._read(ours_out))
        self._readers.add(task)
        task.add_done_callback(self._read_over)
        self._write(*self._standing())

    def _standing(self) -> list[AgentOrder]:
        """What an agent that knows nothing has to be told, in order."""
        orders = [self._seated] if self._seated is not self._order else []
        return [order for order in (*orders, self._order) if order is not None]

    def _write(self, *orders: AgentOrder) -> None:
        """In one piece: an agent answers the last of what it reads at once."""
        if self._stdin is None:
            return
        said = b"".join(line(self._with_slots(order)) for order in orders)
        try:
            taken = os.write(self._stdin, said) == len(said)
        except (BrokenPipeError, BlockingIOError):
            taken = False
        if not taken:
            _log.warning("checkpoint agent takes no orders")
            self._kill()

    def _with_slots(self, order: AgentOrder) -> AgentOrder:
        """The folders of the ranks that are here, and of those that left snapshots here."""
        folder = self._paths.slots(order.job, 0).parent
        held = {int(path.name[1:]) for path in folder.glob("r*") if path.name[1:].isdecimal()}
        ranks = sorted(held | set(order.ranks))
        return replace(
            order,
            slots={rank: str(self._paths.slots(order.job, rank)) for rank in ranks},
            slots_root=str(folder),
        )

    async def _read(self, fd: int) -> None:
        async with readable(fd) as lines:
            while text := await lines.readline():
                try:
                    told = report(text)
                except msgspec.DecodeError as error:
                    _log.warning("checkpoint agent said something else", why=str(error))
                    continue
                self._silent = 0
                self._tell(ev.AgentReported(report=told))

    def _read_over(self, task: asyncio.Task[None]) -> None:
        """Who is not read any more stands still in the end: another will be."""
        self._readers.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("checkpoint agent cannot be read", why=str(error))
            self._kill()

    def _ended(self, pid: int, end: Exit) -> None:
        self.pid = None
        if self._stdin is not None:
            os.close(self._stdin)
            self._stdin = None
        if self._order is None:
            return
        self._silent += 1
        why = f"it died ({'signal' if end.signal else 'exit code'} {end.signal or end.code})"
        final = self._silent >= MAX_FAILURES
        _log.warning("checkpoint agent died", why=why, final=final)
        self._tell(ev.AgentAbsent(why=why, final=final))
        if not final:
            asyncio.get_running_loop().call_later(next(self._waits), self._again)

    def _again(self) -> None:
        if self.pid is None and self._order is not None:
            self._start()


def _leaves_due(seated: AgentOrder, order: AgentOrder) -> bool:
    """Whether what those ranks left is still to be written; in a newer epoch nothing older is."""
    same = (order.job, order.epoch) == (seated.job, seated.epoch)
    return same or order.forget_job == seated.job
