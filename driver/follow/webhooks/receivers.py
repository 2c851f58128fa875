"""All receivers of one driver: each in a task of its own, so that none waits for another.

Made by `driver.wiring`, shown and tested through `Control`.
"""

import asyncio
from collections.abc import Sequence

from holdfast.driver.follow.webhooks.sender import Health, Sender


class Receivers:
    """Those of the file, in its order."""

    def __init__(self, senders: Sequence[Sender]) -> None:
        self._senders = {each.hook.name: each for each in senders}

    @property
    def names(self) -> list[str]:
        return list(self._senders)

    def health(self) -> list[Health]:
        return [each.health for each in self._senders.values()]

    async def test(self, name: str) -> str:
        """Why it did not take an example; "" where it did."""
        return await self._senders[name].test()

    def start(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        return [group.create_task(each.run()) for each in self._senders.values()]
