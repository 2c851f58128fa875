"""The runtime of one node: parent of its containers, owner of its pods' volumes.

Started in the node by its host (`python -m holdfast.lab.emulator.kubelet.runtime`) with the node's
environment. Outlives the kubelet, which finds its containers again here; dies with the node, and
the host then kills what it ran. Must not decide anything: it does what it is ordered, and tells.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from holdfast.keeper import processes
from holdfast.kit.files import write_atomic
from holdfast.lab.emulator import namespaces
from holdfast.lab.emulator.kubelet import container, orders
from holdfast.lab.emulator.kubelet.memory import MemoryGroups
from holdfast.lab.emulator.kubelet.orders import Done, Life, Mount, Phase, Snapshot
from holdfast.protocol import nodeenv
from holdfast.protocol.paths import NodePaths

KILLED = 128  # and the signal's number: how a shell and a kubelet tell it
CANNOT_START = 128


class Runtime:
    """All containers and volumes of one node."""

    def __init__(self, scratch: Path, groups: MemoryGroups) -> None:
        self._scratch = scratch
        self._groups = groups
        node = NodePaths(scratch, scratch)
        self._shown = [
            Mount(source=str(node.sys / "class"), target="/sys/class"),
            Mount(source=str(node.kernel_log), target="/dev/kmsg"),
        ]
        self._lives: dict[tuple[str, str], Life] = {}
        self._executing: dict[int, asyncio.Future[int]] = {}
        self._changed: set[Callable[[], None]] = set()

    # ------------------------------------------------------------ orders

    async def do(self, order: orders.Order) -> Done:
        """Carry out one order; what went wrong in a sentence."""
        try:
            match order:
                case orders.Prepare():
                    self._prepare(order)
                case orders.Start():
                    self._start(order)
                case orders.Stop():
                    self._stop(order)
                case orders.Forget():
                    await self._forget(order.uid)
                case orders.Execute():
                    return Done(error=await self._execute(order))
                case orders.Subscribe():
                    return Done(error="watching is a stream, not an order")
        except OSError as error:
            return Done(error=str(error))
        return Done()

    async def watch(self, tell: Callable[[Snapshot], None], ended: asyncio.Event) -> None:
        """`tell` what there is now and after each change, until `ended`."""

        def changed() -> None:
            lives = list(self._lives.values())
            degraded = self._groups.missing
            tell(Snapshot(lives=lives, prepared=self._prepared(), degraded=degraded))

        self._changed.add(changed)
        changed()
        await ended.wait()
        self._changed.discard(changed)

    def reap(self) -> None:
        """A child ended: a container's init, or a command inside one."""
        for pid, status in processes.reap().items():
            code = os.waitstatus_to_exitcode(status)
            if waiting := self._executing.pop(pid, None):
                waiting.set_result(code)
            for key, life in self._lives.items():
                if life.pid == pid and life.phase is Phase.RUNNING:
                    self._ended(key, life, code)

    # ------------------------------------------------------------ helpers

    def _prepared(self) -> list[str]:
        folder = self._scratch / "pods"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def _prepare(self, order: orders.Prepare) -> None:
        for volume in order.volumes:
            path = orders.volume_path(self._scratch, order.uid, volume.name)
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o777)
            if volume.memory_bytes and not os.path.ismount(path):
                flags = namespaces.MS_NODEV | namespaces.MS_NOSUID
                options = f"size={volume.memory_bytes},mode=1777"
                namespaces.mount("holdfast", path, "tmpfs", flags, options)
            for name, content in volume.files.items():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                write_atomic(path / name, content, mode=volume.mode)

    def _start(self, order: orders.Start) -> None:
        key = (order.uid, order.container)
        before = self._lives.get(key)
        if before is not None and before.attempt >= order.attempt:
            return
        life = Life(
            uid=order.uid,
            container=order.container,
            attempt=order.attempt,
            phase=Phase.RUNNING,
            started_at_s=time.time(),
        )
        self._lives[key] = life
        try:
            group = self._groups.make(order.uid, order.container, order.memory_bytes)
            life.pid = container.launch(order, self._shown, group)
        except (container.CannotStart, OSError) as error:
            life.reason, life.message = "StartError", str(error)
            self._ended(key, life, CANNOT_START)
        self._tell()

    def _ended(self, key: tuple[str, str], life: Life, code: int) -> None:
        life.phase, life.finished_at_s = Phase.EXITED, time.time()
        life.exit_code = KILLED - code if code < 0 else code
        life.signal = -code if code < 0 else 0
        out_of_memory = self._groups.remove(*key)
        said = "OOMKilled" if out_of_memory else "Error" if code else "Completed"
        life.reason = life.reason or said
        self._tell()

    def _stop(self, order: orders.Stop) -> None:
        loop = asyncio.get_running_loop()
        for life in self._running(order.uid):
            if order.container in ("", life.container):
                if order.grace_s > 0:
                    processes.kill(life.pid, signal.SIGTERM)
                loop.call_later(order.grace_s, self._kill, life)

    def _kill(self, life: Life) -> None:
        if life.phase is Phase.RUNNING:
            processes.kill(life.pid)

    def _running(self, uid: str) -> list[Life]:
        lives = [life for life in self._lives.values() if life.uid == uid]
        return [life for life in lives if life.phase is Phase.RUNNING]

    async def _forget(self, uid: str) -> None:
        for life in self._running(uid):
            processes.kill(life.pid)
        while self._running(uid):
            await asyncio.sleep(0.01)
        for key in [key for key in self._lives if key[0] == uid]:
            del self._lives[key]
        folder = self._scratch / "pods" / uid
        for volume in folder.glob("*"):
            if os.path.ismount(volume):
                namespaces.unmount(volume)
        shutil.rmtree(folder, ignore_errors=True)
        self._tell()

    async def _execute(self, order: orders.Execute) -> str:
        """Why the command failed, "" where it did not."""
        life = self._lives.get((order.uid, order.container))
        if life is None or life.phase is not Phase.RUNNING:
            return "the container does not run"
        pid = container.execute(life.pid, order.argv, processes.environment_of(life.pid))
        ended = self._executing[pid] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(order.timeout_s):
                code = await ended
        except TimeoutError:
            processes.kill(pid)
            return f"timed out after {order.timeout_s:g} s"
        return f"exit code {code}" if code else ""

    def _tell(self) -> None:
        for changed in tuple(self._changed):
            changed()


class Door:
    """The Unix socket at which the kubelet gives its orders."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._decoder = msgspec.json.Decoder(orders.Order)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: an answer for each order, or snapshots until it ends."""
        with contextlib.suppress(ConnectionError, msgspec.DecodeError):
            while line := await reader.readline():
                order = self._decoder.decode(line)
                if isinstance(order, orders.Subscribe):
                    await self._stream(reader, writer)
                    break
                writer.write(msgspec.json.encode(await self._runtime.do(order)) + b"\n")
                await writer.drain()
        writer.close()

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended = asyncio.Event()

        def tell(snapshot: Snapshot) -> None:
            writer.write(msgspec.json.encode(snapshot) + b"\n")

        watching = asyncio.create_task(self._runtime.watch(tell, ended))
        await reader.read()  # until the kubelet is gone
        ended.set()
        await watching


LONGEST_ORDER_BYTES = 16 << 20
"""An order carries the files of its volumes, of which an object may have a megabyte."""


async def serve(folder: Path, scratch: Path, groups: MemoryGroups) -> None:
    """Do what is ordered until the node ends."""
    runtime = Runtime(scratch, groups)
    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, runtime.reap)
    path = orders.socket_path(folder)
    path.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(Door(runtime).answer, path, limit=LONGEST_ORDER_BYTES)
    path.chmod(0o600)
    await server.serve_forever()


def main() -> None:
    scratch = Path(os.environ[nodeenv.SCRATCH])
    run_id, node = os.environ[processes.RUN_MARK], os.environ[nodeenv.NODE]
    processes.become_subreaper()
    asyncio.run(serve(scratch.parent, scratch, MemoryGroups(run_id, node)))


if __name__ == "__main__":
    main()
