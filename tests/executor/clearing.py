"""A Clear in a process of its own, of a child whose process between lives on for a while.

Called by `test_executor_sweep` with a case. Prints, as JSON, who was left when the Clear was over,
and how the child ended. What is forked here blocks on pipes of this process, so it ends with it.
"""

import asyncio
import json
import os
import sys

from holdfast.executor.adapters import launcher as launchers
from holdfast.executor.adapters.children import Children, Exit
from holdfast.executor.adapters.proctree import below
from holdfast.executor.adapters.sweep import Sweep
from holdfast.executor.launcher.orders import Program

FAKE = """
import os, signal, socket, sys
import msgspec
from holdfast.executor.launcher.orders import Fork, Forked, Import, Imported

def end_when_closed(fd, code):
    os.read(fd, 1)
    os._exit(code)

signal.signal(signal.SIGTERM, signal.SIG_IGN)
link = socket.socket(fileno=int(sys.argv[2]))
while True:
    data, fds, _, _ = socket.recv_fds(link, 1 << 20, 2)
    if not data:
        break
    order = msgspec.json.decode(data, type=Import | Fork)
    if isinstance(order, Import):
        link.send(msgspec.json.encode(Imported(imported=0, skipped=0)))
    elif not os.fork():
        child = os.fork()
        if not child:
            link.close()
            end_when_closed(fds[1], 3)
        link.send(msgspec.json.encode(Forked(id=order.id, pid=child)))
        end_when_closed(fds[0], 0)
"""
"""A launcher whose process between, and the child, end when one of the two pipes does."""

ASKED = 3
"""Times that the sweep asks whether a fork is on its way, until something is let go."""


class Scene:
    """The real launcher's adapter and sweep, and the fake behind them."""

    def __init__(self, case: str) -> None:
        self.case = case
        self.children = Children()
        self.launcher = launchers.Launcher(self.children, lambda _: None)
        self.sweep = Sweep(self.children, self.kept, self.busy)
        self.between, self.child = os.pipe(), os.pipe()
        self.asked = 0
        self.ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()

    def kept(self) -> set[int]:
        return {self.launcher.pid} if self.launcher.pid else set()

    def busy(self) -> bool:
        """As the launcher says; who has been asked often enough lets a process go."""
        busy = self.launcher.busy
        if not self.launcher._answers:
            self.asked += 1
        if self.asked == ASKED and self.case != "stays":
            os.close(self.between[1])
        if self.asked == 2 * ASKED and self.case == "leads":
            os.close(self.child[1])
        return busy

    async def fork(self) -> list[int]:
        """Order a child: its pid, or nothing where whoever ordered it has not waited."""
        fork = self.launcher.fork(Program(code="pass"), self.between[0], self.child[0])
        order = asyncio.create_task(fork)
        await self.launcher.warm()
        while not self.launcher._answers:
            await asyncio.sleep(0)
        if self.case == "stays":
            launchers.FORK_LIMIT_S = 0.1
        if self.case == "unwanted":
            order.cancel()
            return []
        pid = await order
        self.children.watch(pid, lambda _, status: self.ended.set_result(status))
        return [pid]

    def left(self) -> list[int]:
        return [pid for pid in below(os.getpid()) if pid != self.launcher.pid]

    async def play(self) -> None:
        self.children.start()
        self.launcher.prepare(os.environ, os.getcwd(), [])
        pids = await self.fork()
        await self.sweep.clear(600.0 if self.case == "leads" else 0.0, pids)
        left = self.left()
        ended = await self.ended if pids and not left else None
        print(json.dumps([len(left), ended and ended.code, ended and ended.signal]))
        self.launcher.close("the test is over")
        await self.sweep.clear(0.0, ())


async def main() -> None:
    launchers.BOOT = FAKE
    await Scene(sys.argv[1]).play()


asyncio.run(main())
