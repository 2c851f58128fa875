"""What a reflector told, held against itself: nothing changes after its end or ends unbegun.

For the tests of the client layer. `live` is what a reader who believes every word would have.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

from holdfast.kubeapi.mirror import Change, Changed, Removed, Synced, key_of
from holdfast.kubeapi.reflector import Reflector


class Told:
    """Fed with changes in order; raises `AssertionError` at the first that contradicts another."""

    def __init__(self) -> None:
        self.live: dict[str, dict[str, Any]] = {}
        self.begun: set[str] = set()  # UIDs
        self.ended: set[str] = set()
        self.synced = 0
        self.over: Callable[[], bool] = lambda: False  # true after a contradiction

    def hear(self, change: Change) -> None:
        if isinstance(change, Synced):
            self.synced += 1
            return
        key, uid = key_of(change.object), change.object["metadata"]["uid"]
        before = self.live.get(key)
        assert uid not in self.ended, f"{key} {uid} was told of after its end"
        if isinstance(change, Removed):
            assert before is not None, f"{key} ended and had not begun"
            assert before["metadata"]["uid"] == uid, f"{key}: another of its name ended"
            del self.live[key]
            self.ended.add(uid)
        else:
            assert isinstance(change, Changed)
            assert before is None or before["metadata"]["uid"] == uid, f"{key} did not end first"
            self.live[key] = change.object
            self.begun.add(uid)


@asynccontextmanager
async def told_by(reflector: Reflector) -> AsyncIterator[Told]:
    """What `reflector` tells while the block runs; what it raises ends the block."""
    told = Told()

    async def listen() -> None:
        async with aclosing(reflector.changes()) as changes:
            async for change in changes:
                told.hear(change)

    listening = asyncio.create_task(listen())
    told.over = listening.done
    try:
        yield told
        if listening.done():
            listening.result()
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
