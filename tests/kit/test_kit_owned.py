"""A child is told once that whoever started it is gone."""

import asyncio
import os

from waiting import eventually_async

from holdfast.kit.owned import when_owner_is_gone


async def test_the_end_of_the_owner_is_told_once_and_nothing_before() -> None:
    ours, owners = os.pipe()
    told: list[None] = []
    try:
        when_owner_is_gone(ours, lambda: told.append(None))
        await asyncio.sleep(0)
        assert told == []
        os.close(owners)
        await eventually_async(lambda: told, "its end is told")
        assert not asyncio.get_running_loop().remove_reader(ours), "else it is told for ever"
        assert told == [None]
    finally:
        os.close(ours)
