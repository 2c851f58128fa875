"""What is told of ranks' last lines is kept soon: bounded, of jobs that are here, and never waited
for."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import eventually_async

from holdfast.driver.journal import lastlines
from holdfast.driver.journal.lastlines import AT_ONCE, KEEPS_BYTES, LastLinesKeeper
from holdfast.driver.ports import Kept, PermanentError, TemporaryError
from holdfast.protocol.lastlines import share_bytes
from holdfast.protocol.messages import LastLines

RANKS = 150


class Store:
    def __init__(self) -> None:
        self.kept_ranks: dict[int, Kept] = {}
        self.sizes: list[int] = []
        self.troubles: list[Exception] = []

    async def keep(self, told: Sequence[Kept], *, jobs: Collection[str]) -> None:
        assert list(jobs) == ["a"]
        if self.troubles:
            raise self.troubles.pop(0)
        self.sizes.append(len(told))
        self.kept_ranks |= {each.rank: each for each in told}

    def kept(self, job: str, rank: int) -> Kept | None:
        raise NotImplementedError


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def keeper(store: Store) -> AsyncIterator[LastLinesKeeper]:
    job = SimpleNamespace(number=5, world_size=RANKS)
    state: Any = SimpleNamespace(jobs={"a": job})
    keeper = LastLinesKeeper(store, lambda: state)
    running = asyncio.create_task(keeper.run())
    yield keeper
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def last(rank: int, *, job: str = "a", text: bytes = b"x\n") -> LastLines:
    return LastLines(job=job, attempt=2, rank=rank, stdout=text, stderr=text)


async def test_many_ranks_are_written_some_at_a_time(store: Store, keeper: LastLinesKeeper) -> None:
    for rank in range(RANKS):
        keeper.told(last(rank))
    await eventually_async(lambda: len(store.kept_ranks) == RANKS)
    assert max(store.sizes) == AT_ONCE
    wanted = Kept(job="a", rank=149, number=5, attempt=2, stdout=b"x\n", stderr=b"x\n")
    assert store.kept_ranks[149] == wanted


async def test_nobody_tells_more_than_was_agreed(store: Store, keeper: LastLinesKeeper) -> None:
    for wrong in (last(0, job="b"), last(-1), last(RANKS)):
        keeper.told(wrong)
    most = share_bytes(KEEPS_BYTES, RANKS)
    keeper.told(last(1, text=b"y" * most + b"end"))
    await eventually_async(lambda: store.kept_ranks)
    assert list(store.kept_ranks) == [1]
    assert store.kept_ranks[1].stdout == b"y" * (most - 3) + b"end"


async def test_a_database_that_is_away_is_tried_again_and_one_that_refuses_is_not(
    store: Store, keeper: LastLinesKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lastlines, "AGAIN_S", 0.0)
    store.troubles = [TemporaryError("away"), TemporaryError("away")]
    keeper.told(last(1, text=b"first\n"))
    keeper.told(last(1, text=b"then\n"))
    await eventually_async(lambda: store.kept_ranks)
    assert store.kept_ranks[1].stdout == b"then\n"
    store.troubles = [PermanentError("taken over")]
    keeper.told(last(2))
    await eventually_async(lambda: not store.troubles)
    keeper.told(last(3))
    await eventually_async(lambda: 3 in store.kept_ranks)
    assert 2 not in store.kept_ranks
