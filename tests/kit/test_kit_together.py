"""Work side by side: the first to end ends all, and whoever cancels is obeyed."""

import asyncio

import pytest
from waiting import DEADLINE_S

from holdfast.kit.together import until_first


async def fail_at(event: asyncio.Event) -> None:
    await event.wait()
    raise ConnectionError("gone")


async def for_ever(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("other")


async def test_the_error_of_the_first_is_raised_and_the_others_have_ended() -> None:
    gone, ended = asyncio.Event(), list[str]()
    gone.set()
    with pytest.raises(ConnectionError, match="gone"):
        await until_first(fail_at(gone), for_ever(ended))
    assert ended == ["other"]


@pytest.mark.parametrize("turns", range(6))
async def test_a_cancellation_beside_an_error_is_never_forgotten(turns: int) -> None:
    gone, ended = asyncio.Event(), list[str]()

    async def again_and_again() -> None:
        while True:
            try:
                await until_first(fail_at(gone), for_ever(ended))
            except ConnectionError:
                await asyncio.sleep(3_600)

    running = asyncio.create_task(again_and_again())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gone.set()
    for _ in range(turns):  # the error is on its way up, one turn of the loop further each time
        await asyncio.sleep(0)
    running.cancel()
    done, _ = await asyncio.wait([running], timeout=DEADLINE_S)
    assert done
    assert running.cancelled()
    assert ended == ["other"]
