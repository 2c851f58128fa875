"""Probes of a container: whether it has started, is ready, and has to be killed.

Run by `pod` for each life of a container that has any. HTTP and TCP are asked inside the node's
network; a command runs inside the container. The rules are the kubelet's: readiness and liveness
wait for startup, a threshold of answers in a row changes the word.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

from holdfast.lab.emulator.kubelet import orders
from holdfast.lab.emulator.kubelet.link import socket_in
from holdfast.lab.emulator.kubelet.orders import Life
from holdfast.lab.emulator.kubelet.preparing import Surroundings
from holdfast.lab.emulator.kubelet.runtimes import Refused

Object = dict[str, Any]
GRACE_S = 30.0
"""Of a container whose probe fails, where the pod says nothing else."""
AGAIN_S = 1.0
"""After a runtime that did not answer."""


class Probing:
    """The probes of one life of a container; `ready` and `started` are what they say now."""

    def __init__(
        self,
        around: Surroundings,
        pod: Object,
        container: Object,
        life: Life,
        changed: Callable[[], None],
    ) -> None:
        self._around = around
        self._container = container
        self._life = life
        self._changed = changed
        self._grace_s = float(pod["spec"].get("terminationGracePeriodSeconds", GRACE_S))
        self.started = "startupProbe" not in container
        self.ready = self.started and "readinessProbe" not in container
        self._task = asyncio.create_task(self._run())

    def end(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        """Startup first, then the two others until the container ends or has to be killed."""
        if probe := self._container.get("startupProbe"):
            async for well in self._words(probe):
                if not well:
                    await self._kill()
                    return
                break
            self.started, self.ready = True, "readinessProbe" not in self._container
            self._changed()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_readiness())
            group.create_task(self._watch_liveness())

    async def _watch_readiness(self) -> None:
        if probe := self._container.get("readinessProbe"):
            async for well in self._words(probe):
                self.ready = well
                self._changed()

    async def _watch_liveness(self) -> None:
        if probe := self._container.get("livenessProbe"):
            async for well in self._words(probe):
                if not well:
                    await self._kill()
                    return

    async def _words(self, probe: Object) -> AsyncIterator[bool]:
        """Each time when enough answers of a kind have come in a row: of which kind they are."""
        needed = {True: probe.get("successThreshold", 1), False: probe.get("failureThreshold", 3)}
        last, in_a_row = False, 0
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        while True:
            await self._around.knobs.thawed()
            well = await self._ask(probe)
            last, in_a_row = well, in_a_row + 1 if well is last else 1
            if in_a_row == needed[well]:
                yield well
            await asyncio.sleep(probe.get("periodSeconds", 10))

    async def _ask(self, probe: Object) -> bool:
        within_s = float(probe.get("timeoutSeconds", 1))
        try:
            async with asyncio.timeout(within_s):
                return await self._answer(probe, within_s)
        except (OSError, TimeoutError, ValueError, Refused):
            return False

    async def _answer(self, probe: Object, within_s: float) -> bool:
        if command := probe.get("exec"):
            await self._around.runtime.order(
                orders.Execute(
                    uid=self._life.uid,
                    container=self._life.container,
                    argv=command["command"],
                    timeout_s=within_s,
                )
            )
            return True
        asked = probe.get("httpGet") or probe["tcpSocket"]
        address = asked.get("host") or self._around.address
        port = self._port(asked["port"])
        made = socket_in(self._around.client.host_pid, socket.AF_INET, socket.SOCK_STREAM)
        made.setblocking(False)
        with made:
            await asyncio.get_running_loop().sock_connect(made, (address, port))
            return "tcpSocket" in probe or await _get(made, address, asked)

    def _port(self, wanted: int | str) -> int:
        """A port by its number or its name. Raises `ValueError` where nobody has that name."""
        ports = self._container.get("ports", [])
        named = [one["containerPort"] for one in ports if one.get("name") == wanted]
        return int(named[0] if named else wanted)

    async def _kill(self) -> None:
        """It is started again by the pod, as any container that ended."""
        order = orders.Stop(
            uid=self._life.uid, container=self._life.container, grace_s=self._grace_s
        )
        while True:
            try:
                await self._around.runtime.order(order)
            except (OSError, Refused):
                await asyncio.sleep(AGAIN_S)
            else:
                return


async def _get(connected: socket.socket, host: str, asked: Object) -> bool:
    """Whether the answer to an HTTP GET is of the 200s or 300s, whoever answers."""
    headers = {"Host": host, "Connection": "close", "User-Agent": "kube-probe/1.36"}
    headers |= {one["name"]: one["value"] for one in asked.get("httpHeaders", [])}
    lines = [f"GET {asked.get('path', '/')} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    tls = _anybody() if asked.get("scheme") == "HTTPS" else None
    reader, writer = await asyncio.open_connection(
        sock=connected.dup(), ssl=tls, server_hostname=host if tls else None
    )
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode())
        answer = await reader.readline()
    finally:
        writer.close()
    return 200 <= int(answer.split(maxsplit=2)[1]) < 400


def _anybody() -> ssl.SSLContext:
    """A kubelet asks whether there is an answer, and sends no secret: it verifies nobody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
