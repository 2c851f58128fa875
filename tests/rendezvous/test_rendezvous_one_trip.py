"""Groups ask the store a number of times that does not grow with them."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest
from redis_server import redis_server, stores_on

pytest.importorskip("torch")
from torch.distributed import (
    DistStoreError,
    HashStore,
    PrefixStore,
    ProcessGroupGloo,
    TCPStore,
)

from holdfast.bench.rendezvous.counted import CountingStore, operations
from holdfast.lab.redis import Redis
from holdfast.rendezvous.one_trip import OneTrip

pytestmark = pytest.mark.torch

LIMIT = timedelta(seconds=60)


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with redis_server() as server:
        yield server


def gloo_group(members: int, *, wrapped: bool) -> list[Counter[str]]:
    """What each member of a real group asked while it was made, in threads."""
    shared, counts = HashStore(), [Counter[str]() for _ in range(members)]
    stores = [CountingStore(shared, each) for each in counts]
    asked = [OneTrip(store, members) if wrapped else store for store in stores]
    made: list[object] = []

    def join(member: int) -> None:
        made.append(ProcessGroupGloo(asked[member], member, members, timeout=LIMIT))

    joining = [threading.Thread(target=join, args=(member,)) for member in range(members)]
    for each in joining:
        each.start()
    for each in joining:
        each.join(60)
    assert len(made) == members
    return counts


@pytest.mark.parametrize("members", [2, 16])
def test_a_member_of_a_real_group_asks_twice_however_large_it_is(members: int) -> None:
    assert gloo_group(members, wrapped=True) == [{"set": 1, "multi_get": 1}] * members


def test_by_itself_it_asks_for_each_other_member_as_the_benchmark_counts() -> None:
    [once, *_] = gloo_group(16, wrapped=False)
    assert once == {"set": 1, "wait": 16, "get": 16}


def test_all_groups_of_a_job_cost_a_rank_the_same_at_any_size() -> None:
    assert operations(64, wrapped=True) == operations(256, wrapped=True) == 8
    assert operations(256, wrapped=False) > 3 * operations(64, wrapped=False)


def test_what_no_member_says_is_asked_for_as_ever() -> None:
    counts = Counter[str]()
    inner = CountingStore(HashStore(), counts)
    store = OneTrip(inner, 4)
    inner.set("id", "x")
    inner.set("0/9", "not of the four")
    store.set("0/1", "mine")
    assert (store.get("id"), store.get("0/9")) == (b"x", b"not of the four")
    assert "multi_get" not in counts


def test_who_has_not_said_its_own_gets_one_key_alone() -> None:
    """As in NCCL's groups, where one member says something and all read it."""
    counts, shared = Counter[str](), HashStore()
    shared.set_timeout(timedelta(seconds=5))
    inner = CountingStore(shared, counts)
    inner.set("0", "id")
    inner.set("0/0", "id")
    store = OneTrip(inner, 4)
    assert (store.get("0"), store.get("0/0")) == (b"id", b"id")
    assert "multi_get" not in counts


def test_a_value_that_is_asked_for_again_is_the_one_of_then() -> None:
    inner = HashStore()
    store = OneTrip(inner, 2)
    inner.set("0/0", "a")
    store.set("0/1", "b")
    assert (store.get("0/0"), store.get("0/1")) == (b"a", b"b")
    inner.set("0/0", "later")
    assert store.get("0/0") == b"later"


def test_members_that_did_not_come_are_named(redis: Redis) -> None:
    with stores_on(redis, "absent", timeout=timedelta(milliseconds=300)) as opened:
        store = OneTrip(opened(), 4)
        store.set("0/2", "mine")
        with pytest.raises(DistStoreError, match="3 of 4 keys were set by no rank: 0/0, 0/1, 0/3"):
            store.wait(["0/0"])


@pytest.mark.parametrize("kind", ["redis", "tcp"])
def test_a_group_waits_as_long_as_it_was_told_and_the_store_as_ever(
    request: pytest.FixtureRequest, kind: str
) -> None:
    with ExitStack() as stack:
        if kind == "tcp":
            store = TCPStore("127.0.0.1", 0, None, True, LIMIT, wait_for_workers=False)
        else:
            server = request.getfixturevalue("redis")
            store = stack.enter_context(stores_on(server, "patient", timeout=LIMIT))()
        group = OneTrip(PrefixStore("group", store), 4)
        group.set("0/2", "mine")
        began = time.monotonic()
        with pytest.raises(DistStoreError, match=r"(?i)wait timeout"):
            group.wait(["0/0"], timedelta(milliseconds=300))
        assert time.monotonic() - began < LIMIT.total_seconds() / 2
        assert store.timeout == LIMIT
