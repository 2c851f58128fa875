"""The loop of signals: looks at kernel log and DCGM, and tells what is new until it is taken.

Made by `__main__`. The only place where sources and the Node meet. Writes at its start and for the
first fault of each condition, and else never: ten thousand nodes do this.
"""

import asyncio
import stat

import httpx

from holdfast.daemon.samplers.logs import KernelLog
from holdfast.daemon.samplers.tail import KernelMessages, Tail
from holdfast.daemon.signals.conditions import due
from holdfast.daemon.signals.findings import Found, of_dcgm, of_kernel
from holdfast.daemon.signals.node import NodeObject, NotTold
from holdfast.daemon.signals.settings import Settings
from holdfast.kit.backoff import full_jitter
from holdfast.kit.clock import Clock
from holdfast.kit.logs import LazyLogger
from holdfast.kit.tls import reason

LOOK_S = 0.5
LARGEST_LOG_LOOKS = 100
"""Each is of a thousand records, and costs nothing where there are none."""
DCGM_EVERY_S = 15.0
"""An exporter collects every 30 s."""
DCGM_TIMEOUT_S = 5.0
BASE_S, CAP_S = 1.0, 30.0
"""Between tries to tell."""

_log = LazyLogger()


class Signals:
    """One node's. A fault is kept, and told again, for as long as this process lives."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._kernel = KernelLog(_source(settings))
        self._node = NodeObject(settings)
        self._found: dict[str, Found] = {}  # the first, by condition
        self._new = asyncio.Event()
        self._wrong: dict[str, str] = {}  # what was logged last, by what it is about

    async def run(self) -> None:
        """For ever, or until cancelled."""
        self._look_at_all()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_always())
            group.create_task(self._tell_always())
            if self._settings.dcgm:
                group.create_task(self._ask_always())

    def _look(self) -> None:
        for hit in self._kernel.hits(self._clock.monotonic_s()):
            self._take(of_kernel(hit))

    def _look_at_all(self) -> None:
        """To the end of what the log has by now: else the Node would be called good before."""
        for _ in range(LARGEST_LOG_LOOKS):
            self._look()

    def _take(self, found: Found | None) -> None:
        """Of many of one kind the first is told: it is the cause of what comes after it."""
        if found is not None and found.condition not in self._found:
            self._found[found.condition] = found
            _log.warning("signal found", **found._asdict())
            self._new.set()

    async def _look_always(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self._look()

    async def _ask_always(self) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=DCGM_TIMEOUT_S) as client:
            while True:
                self._say("dcgm", await self._ask(client))
                await asyncio.sleep(DCGM_EVERY_S)

    async def _ask(self, client: httpx.AsyncClient) -> str:
        """Take what the exporter says. Why that could not be, or ""."""
        try:
            answer = (await client.get(self._settings.dcgm)).raise_for_status()
            for found in of_dcgm(answer.text, self._settings.node):
                self._take(found)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            return f"{self._settings.dcgm}: {reason(error)}"
        return ""

    async def _tell_always(self) -> None:
        while True:
            self._new.clear()
            await self._tell()
            await self._new.wait()

    async def _tell(self) -> None:
        """Return once the Node says it all."""
        for wait_s in full_jitter(base_s=BASE_S, cap_s=CAP_S):
            try:
                await self._write()
            except NotTold as error:
                self._say("node", str(error))
                await asyncio.sleep(wait_s)
            else:
                self._say("node", "")
                return

    async def _write(self) -> None:
        seen = await self._node.patch()
        now, boot = self._clock.wall(), self._settings.boot
        if conditions := due(seen, self._found, boot=boot, now=now):
            await self._node.patch(conditions)
        for each in conditions:
            _log.info("condition told", condition=each["type"], status=each["status"])

    def _say(self, about: str, wrong: str) -> None:
        """What is wrong, each time that it is another thing."""
        if wrong != self._wrong.get(about, ""):
            _log.warning("signals in trouble" if wrong else "signals well", about=about, why=wrong)
        self._wrong[about] = wrong


def _source(settings: Settings) -> KernelMessages | Tail:
    path = settings.kernel_log
    if stat.S_ISCHR(path.stat().st_mode):
        return KernelMessages(path, old_too=True)
    return Tail(path)
