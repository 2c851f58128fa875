"""The work queue and the token bucket, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.kubeapi.bucket import TokenBucket
from holdfast.kubeapi.errors import TooMany
from holdfast.kubeapi.queue import KeyedQueue

pytestmark = pytest.mark.looptime
Handle = Callable[[str], Awaitable[None]]


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def worked(queue: KeyedQueue, handle: Handle, for_s: float, at_once: int = 1) -> None:
    """Have `queue` worked on for `for_s` seconds."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(for_s):
            await queue.work(handle, at_once=at_once)


async def test_a_key_that_was_added_many_times_is_worked_on_once() -> None:
    queue, done = KeyedQueue(), list[str]()
    for key in ["a", "b", "a", "a"]:
        queue.add(key)
    assert len(queue) == 2

    async def handle(key: str) -> None:
        done.append(key)

    await worked(queue, handle, 1)
    assert done == ["a", "b"]


async def test_a_key_is_never_worked_on_twice_at_a_time_and_once_more_if_it_changed() -> None:
    queue, at_work, most, done = KeyedQueue(), 0, 0, 0

    async def handle(key: str) -> None:
        nonlocal at_work, most, done
        at_work += 1
        most = max(most, at_work)
        queue.add(key) if done == 0 else None
        await asyncio.sleep(1)
        at_work -= 1
        done += 1

    queue.add("a")
    await worked(queue, handle, 10, at_once=3)
    assert (most, done) == (1, 2)


async def test_other_keys_go_on_while_one_takes_long() -> None:
    queue, done = KeyedQueue(), list[str]()

    async def handle(key: str) -> None:
        await asyncio.sleep(100 if key == "slow" else 1)
        done.append(key)

    for key in ["slow", "a", "b"]:
        queue.add(key)
    await worked(queue, handle, 10, at_once=2)
    assert done == ["a", "b"]


async def test_what_fails_for_now_comes_again_later_and_later_and_anew_after_it_worked() -> None:
    queue, tries = KeyedQueue(again_cap_s=8.0), list[float]()

    async def handle(key: str) -> None:
        tries.append(now_s())
        raise TemporaryError("not yet")

    queue.add("a")
    await worked(queue, handle, 3_600)
    waits = [later - earlier for earlier, later in pairwise(tries)]
    assert waits[0] <= 0.1
    assert max(waits) <= 8.01
    assert 3.0 < sum(waits[-400:]) / 400 < 5.0, "full jitter: half the cap on average"


async def test_a_server_that_says_when_to_come_again_is_obeyed() -> None:
    queue, tries = KeyedQueue(), list[float]()

    async def handle(key: str) -> None:
        tries.append(now_s())
        if len(tries) == 1:
            raise TooMany("wait", retry_after_s=20.0)

    queue.add("a")
    await worked(queue, handle, 60)
    assert tries[1] - tries[0] == pytest.approx(20, abs=0.2)


async def test_what_fails_for_good_waits_for_a_change_and_stops_nobody() -> None:
    queue, done = KeyedQueue(), list[str]()

    async def handle(key: str) -> None:
        done.append(key)
        if key == "bad":
            raise PermanentError("change this")

    queue.add("bad")
    queue.add("good")
    await worked(queue, handle, 3_600)
    assert done == ["bad", "good"]
    queue.add("bad")
    await worked(queue, handle, 1)
    assert done == ["bad", "good", "bad"]


async def test_a_defect_ends_the_work() -> None:
    queue = KeyedQueue()

    async def handle(key: str) -> None:
        raise ZeroDivisionError

    queue.add("a")
    with pytest.raises(ExceptionGroup) as raised:
        await queue.work(handle)
    assert raised.group_contains(ZeroDivisionError)


async def test_the_soonest_of_several_wishes_counts_and_forgetting_ends_all() -> None:
    queue, done = KeyedQueue(), list[tuple[str, float]]()
    begun_s = now_s()

    async def handle(key: str) -> None:
        done.append((key, round(now_s() - begun_s)))

    queue.add("a", after_s=50)
    queue.add("a", after_s=20)
    queue.add("a", after_s=70)
    queue.add("b", after_s=30)
    queue.forget("b")
    await worked(queue, handle, 200)
    assert done == [("a", 20)]


async def test_a_bucket_limits_how_fast_keys_are_taken() -> None:
    queue, done = KeyedQueue(bucket=TokenBucket(per_s=2.0, burst=3)), list[float]()
    begun_s = now_s()

    async def handle(key: str) -> None:
        done.append(now_s() - begun_s)

    for number in range(7):
        queue.add(str(number))
    await worked(queue, handle, 60, at_once=4)
    assert done == pytest.approx([0, 0, 0, 0.5, 1.0, 1.5, 2.0], abs=0.01)


async def test_a_bucket_fills_to_its_burst_and_no_further() -> None:
    bucket = TokenBucket(per_s=10.0, burst=5)
    await asyncio.sleep(1_000)
    begun_s = now_s()
    for _ in range(25):
        await bucket.take()
    assert now_s() - begun_s == pytest.approx(2.0, abs=0.01)


async def test_a_held_bucket_gives_nothing_until_then_and_then_at_its_rate() -> None:
    bucket, taken = TokenBucket(per_s=10.0, burst=100), list[float]()
    await bucket.take()
    begun_s = now_s()
    bucket.hold(5.0)
    bucket.hold(1.0)  # a shorter wish does not shorten it
    for _ in range(3):
        await bucket.take()
        taken.append(now_s() - begun_s)
    assert taken == pytest.approx([5.1, 5.2, 5.3], abs=0.01)


async def test_who_waits_for_a_token_and_gives_up_does_not_keep_it_from_others() -> None:
    bucket = TokenBucket(per_s=1.0, burst=1)
    await bucket.take()
    begun_s = now_s()
    for _ in range(10):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await bucket.take()
    await bucket.take()
    assert now_s() - begun_s < 1.5
