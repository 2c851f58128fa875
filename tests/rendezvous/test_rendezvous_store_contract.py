"""The contract of every store where ranks meet: torch's own, and ours on a real Redis."""

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count

import pytest
from redis_server import redis_server, stores_on

pytest.importorskip("torch")
from torch.distributed import DistStoreError, HashStore, Store, TCPStore

from holdfast.lab.redis import Redis

pytestmark = pytest.mark.torch

KINDS = ["hash", "tcp", "redis"]
SHORT = timedelta(milliseconds=200)
LONG = timedelta(seconds=20)
_numbers = count()

Open = Callable[[], Store]
"""Opens the same store, as another rank does."""


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with redis_server() as server:
        yield server


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest) -> Iterator[Open]:
    if request.param == "hash":
        one = HashStore()
        yield lambda: one
    elif request.param == "tcp":
        master = TCPStore("127.0.0.1", 0, None, True, LONG, wait_for_workers=False)
        yield lambda: TCPStore("127.0.0.1", master.port, None, False, LONG)
    else:
        server: Redis = request.getfixturevalue("redis")
        with stores_on(server, f"contract-{next(_numbers)}") as made:
            yield made


@pytest.fixture
def store(opened: Open) -> Store:
    return opened()


def test_what_one_sets_another_gets(opened: Open) -> None:
    opened().set("key", "value")
    opened().set("bytes", b"\xff\x00\n")
    assert (opened().get("key"), opened().get("bytes")) == (b"value", b"\xff\x00\n")


def test_a_value_may_be_empty_and_is_replaced(store: Store) -> None:
    store.set("key", "")
    assert store.get("key") == b""
    store.set("key", "2")
    assert store.get("key") == b"2"


def test_who_gets_what_is_not_there_waits_for_it(opened: Open) -> None:
    got: list[bytes] = []
    one = threading.Thread(target=lambda: got.append(opened().get("later")))
    one.start()
    opened().set("later", "now")
    one.join(20)
    assert got == [b"now"]


def test_many_wait_for_one_key(opened: Open) -> None:
    got: list[bytes] = []
    waiting = [threading.Thread(target=lambda: got.append(opened().get("k"))) for _ in range(20)]
    for each in waiting:
        each.start()
    opened().set("k", "v")
    for each in waiting:
        each.join(20)
    assert got == [b"v"] * 20


def test_a_wait_ends_with_an_error_after_its_time(store: Store) -> None:
    store.set("there", "1")
    with pytest.raises(DistStoreError, match=r"(?i)wait timeout"):
        store.wait(["there", "not there"], SHORT)
    store.set_timeout(SHORT)
    with pytest.raises(DistStoreError, match=r"(?i)wait timeout"):
        store.wait(["not there"])
    with pytest.raises(DistStoreError, match=r"(?i)wait timeout"):
        store.get("not there")
    with pytest.raises(DistStoreError, match=r"(?i)wait timeout"):
        store.multi_get(["there", "not there"])
    assert store.get("there") == b"1"  # it goes on after that


def test_a_wait_for_what_is_there_ends_at_once(store: Store) -> None:
    store.multi_set(["a", "b"], ["1", "2"])
    store.wait(["a", "b"], LONG)
    store.wait([], LONG)


def test_keys_are_there_or_not(store: Store) -> None:
    store.set("a", "1")
    assert store.check(["a"])
    assert not store.check(["a", "b"])


def test_numbers_are_added_by_many_at_once(opened: Open) -> None:
    adding = [threading.Thread(target=lambda: opened().add("n", 3)) for _ in range(10)]
    for each in adding:
        each.start()
    for each in adding:
        each.join(20)
    assert opened().add("n", -5) == 25
    assert opened().get("n") == b"25"


def test_a_value_is_replaced_where_it_is_as_expected(store: Store) -> None:
    assert store.compare_set("a", "", "x") == b"x"
    assert store.compare_set("a", "other", "y") == b"x"
    assert store.compare_set("a", "x", "y") == b"y"
    assert store.compare_set("not there", "x", "y") == b"x"
    assert not store.check(["not there"])


def test_what_is_deleted_is_gone(store: Store) -> None:
    store.set("a", "1")
    assert (store.delete_key("a"), store.delete_key("a")) == (True, False)
    assert not store.check(["a"])


def test_keys_are_counted_and_listed(store: Store) -> None:
    before = store.num_keys()
    store.multi_set(["g/0", "g/1", "g/2"], ["a", "b", "c"])
    store.multi_get(["g/0", "g/1", "g/2"])
    store.add("n", 1)
    assert store.num_keys() == before + 4
    assert {"g/0", "g/1", "g/2", "n"} <= set(store.list_keys())


def test_a_value_is_appended_to(store: Store) -> None:
    store.append("log", "a")
    store.append("log", "bc")
    assert store.get("log") == b"abc"


def test_many_are_set_and_got_at_once_in_their_order(store: Store) -> None:
    store.multi_set(["a", "b"], ["1", "2"])
    assert store.multi_get(["b", "a", "b"]) == [b"2", b"1", b"2"]
    assert store.multi_get([]) == []


@pytest.mark.parametrize("members", [2, 3, 40])
def test_members_of_a_family_are_got_whole_however_they_come(opened: Open, members: int) -> None:
    keys = [f"group/0/{member}" for member in range(members)]
    got: list[list[bytes]] = []
    first, second = opened(), opened()
    early = threading.Thread(target=lambda: got.append(list(first.multi_get(keys))))
    early.start()
    for member in reversed(range(members)):
        second.set(keys[member], f"at {member}")
    early.join(20)
    assert not early.is_alive(), "the last that comes lets it go"
    late = list(second.multi_get(keys))
    assert got == [late] == [[f"at {member}".encode() for member in range(members)]]


def test_a_family_is_as_it_is_when_it_is_asked_for(store: Store) -> None:
    keys = ["f/0", "f/1", "f/2"]
    store.multi_set(keys, ["a", "b", "c"])
    store.multi_get(keys)
    store.set("f/1", "B")
    assert store.multi_get(keys) == [b"a", b"B", b"c"]
    store.delete_key("f/2")
    store.add("f/2", 7)
    assert store.multi_get(keys) == [b"a", b"B", b"7"]


def test_a_family_of_which_one_was_deleted_is_waited_for(store: Store) -> None:
    keys = ["f/0", "f/1", "f/2"]
    store.multi_set(keys, ["a", "b", "c"])
    store.multi_get(keys)
    store.delete_key("f/1")
    store.set_timeout(SHORT)
    with pytest.raises(DistStoreError, match=r"(?i)wait timeout"):
        store.multi_get(keys)


def test_a_part_of_a_family_is_got_and_then_more_of_it(store: Store) -> None:
    keys = [f"f/{member}" for member in range(5)]
    store.multi_set(keys, [*"abcde"])
    assert store.multi_get(keys[:3]) == [b"a", b"b", b"c"]
    assert store.multi_get(keys) == [b"a", b"b", b"c", b"d", b"e"]


def test_torchs_barrier_lets_go_once_all_have_come(opened: Open) -> None:
    other = threading.Thread(target=lambda: opened().barrier("all", 2, LONG))
    other.start()
    opened().barrier("all", 2, LONG)
    other.join(20)
    assert not other.is_alive()
