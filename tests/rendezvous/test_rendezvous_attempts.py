"""A store of an earlier attempt, a server that dies, a connection that breaks."""

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from redis_server import redis_server, stores_on
from waiting import eventually

pytest.importorskip("torch")
import redis as client
from torch.distributed import DistError, DistNetworkError, DistStoreError

from holdfast.lab.redis import Redis
from holdfast.rendezvous import redis_store
from holdfast.rendezvous.redis_store import RedisStore

pytestmark = pytest.mark.torch

SHORT = timedelta(milliseconds=300)


@pytest.fixture
def server() -> Iterator[Redis]:
    with redis_server() as server:
        yield server


@pytest.fixture
def seen(server: Redis) -> Iterator[client.Redis]:
    """A look at what is in the server."""
    with client.Redis.from_url(server.url, decode_responses=True) as looking:
        yield looking


def test_an_earlier_attempt_writes_nothing_into_a_later_one(
    server: Redis, seen: client.Redis
) -> None:
    with stores_on(server, "job") as first, stores_on(server, "job", attempt=2) as second:
        early, late = first(), second()
        late.set("a", "2")
        before = set(seen.keys())
        for write in (
            lambda: early.set("a", "1"),
            lambda: early.add("n", 1),
            lambda: early.append("log", "x"),
            lambda: early.compare_set("a", "", "1"),
            lambda: early.delete_key("a"),
            lambda: early.multi_get(["g/0", "g/1", "g/2"]),
            lambda: early.get("a"),
        ):
            with pytest.raises(DistStoreError, match="attempt 1 is over: attempt 2 has begun"):
                write()
        assert set(seen.keys()) == before
        assert late.get("a") == b"2"


def test_a_later_attempt_begins_with_nothing_and_drops_what_was_left(
    server: Redis, seen: client.Redis
) -> None:
    with stores_on(server, "job") as first, stores_on(server, "job", attempt=2) as second:
        early = first()
        early.multi_set(["g/0", "g/1", "g/2"], ["a", "b", "c"])
        early.multi_get(["g/0", "g/1", "g/2"])
        late = second()
        assert (late.num_keys(), late.check(["g/0"])) == (0, False)
        assert [key for key in seen.scan_iter() if ":1:" in key] == []


def test_another_job_is_not_touched(server: Redis) -> None:
    with stores_on(server, "one") as first, stores_on(server, "other", attempt=7) as second:
        one = first()
        one.set("a", "1")
        second().set("a", "7")
        assert one.get("a") == b"1"


def test_nothing_stays_for_ever(server: Redis, seen: client.Redis) -> None:
    with stores_on(server, "job") as opened:
        store = opened()
        store.multi_set(["g/0", "g/1", "g/2"], ["a", "b", "c"])
        store.multi_get(["g/0", "g/1", "g/2"])
        store.add("n", 1)
        store.append("n", "1")
    assert all(0 < seen.ttl(key) <= 30 * 86_400 for key in seen.scan_iter())


def test_a_dead_server_is_told_in_time_and_tried_again(server: Redis) -> None:
    with stores_on(server, "job", timeout=SHORT) as opened:
        store = opened()
        store.set("a", "1")
        server.stop()
        with pytest.raises(DistNetworkError, match=f"{server.url} does not answer"):
            store.get("a")
        server.start()
        store.set("a", "2")
        assert store.get("a") == b"2"


def test_who_waits_for_a_server_that_is_away_says_so_once(
    server: Redis, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_store, "SILENT_S", 0.0)
    with stores_on(server, "job", timeout=timedelta(seconds=1)) as opened:
        store = opened()
        server.stop()
        with pytest.raises(DistNetworkError):
            store.get("a")
    [told] = caplog.messages
    assert told.startswith(f"the rendezvous at {server.url} does not answer: ")
    assert told.endswith("It is tried again for 1 s")


def test_a_server_that_stands_still_is_asked_again(
    server: Redis,
    seen: client.Redis,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redis_store, "ANSWERS_IN_S", 0.1)
    monkeypatch.setattr(redis_store, "ANSWER_SPARE_S", 0.1)
    monkeypatch.setattr(redis_store, "SILENT_S", 0.1)
    with stores_on(server, "job") as opened:
        store = opened()
        pid = int(seen.info("server")["process_id"])
        os.kill(pid, signal.SIGSTOP)
        try:
            with ThreadPoolExecutor(1) as pool:
                done = pool.submit(store.set, "a", "1")
                eventually(lambda: bool(caplog.messages))
                os.kill(pid, signal.SIGCONT)
                done.result(60)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert store.get("a") == b"1"


def test_who_waits_is_told_at_once_that_a_server_has_begun_anew(server: Redis) -> None:
    """What ranks had told each other is lost: it would wait for ever."""
    with (
        stores_on(server, "job", timeout=timedelta(seconds=60)) as opened,
        ThreadPoolExecutor() as p,
    ):
        waiting, other = opened(), opened()
        other.set("a", "1")
        seen = client.Redis.from_url(server.url)
        waits = [p.submit(waiting.wait, ["a", "never"]), p.submit(waiting.multi_get, ["b", "c"])]
        eventually(lambda: len(seen.client_list()) > 2)
        seen.close()
        server.stop()
        server.start()
        opened().set("a", "2")  # of a rank that came later
        for each in waits:
            with pytest.raises(DistStoreError, match="has begun anew: what ranks had told is lost"):
                each.result(60)
        other.set("b", "1")
        assert other.get("b") == b"1", "who has met may go on with it"


def test_who_waits_when_its_connection_breaks_waits_on(server: Redis) -> None:
    with stores_on(server, "job") as opened, ThreadPoolExecutor() as pool:
        waiting, other = opened(), opened()
        with client.Redis.from_url(server.url) as seen:
            wait = pool.submit(waiting.get, "a")
            eventually(lambda: any(each["cmd"] == "blmove" for each in seen.client_list()))
            seen.client_kill_filter(_type="normal", skipme=True)
        other.set("a", "1")
        assert wait.result(60) == b"1"


def test_a_server_that_refuses_is_named(server: Redis, seen: client.Redis) -> None:
    with stores_on(server, "job") as opened:
        store = opened()
        store.set("a", "1")
        seen.replicaof("127.0.0.1", "1")  # where nobody is: it takes no writes any more
        for write in (lambda: store.add("n", 1), lambda: store.set("a", "2")):
            with pytest.raises(DistError, match=f"the rendezvous at {server.url} refuses: "):
                write()
        seen.replicaof("NO", "ONE")
        assert store.get("a") == b"1"


def test_where_nobody_listens_no_store_is_made(server: Redis) -> None:
    server.stop()
    with pytest.raises(DistNetworkError, match="Is it running, and reachable"):
        RedisStore(server.url, job="job", attempt=1, timeout=SHORT)


def test_a_broken_connection_is_made_anew(server: Redis, seen: client.Redis) -> None:
    with stores_on(server, "job") as opened:
        store = opened()
        store.set("a", "1")
        seen.client_kill_filter(_type="normal", skipme=True)
        assert store.get("a") == b"1"


def test_what_was_done_before_its_answer_was_lost_is_not_done_twice(
    server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stores_on(server, "job") as opened:
        store = opened()
        store.add("n", 1)
        answer, lost = store._reply, []

        def lose(*given: object) -> object:
            found = answer(*given)
            if len(lost) < 2:
                lost.append(found)
                raise client.ConnectionError("lost")
            return found

        monkeypatch.setattr(store, "_reply", lose)
        assert store.add("n", 5) == 6
        lost.clear()
        store.append("log", "x")
        lost.clear()
        assert store.delete_key("log")
        assert store.get("n") == b"6"


FIRST = """
import sys
import threading
from holdfast.rendezvous.redis_store import RedisStore
store = RedisStore(sys.argv[1], job="job", attempt=1)
store.set("said by rank 0", "1")
print("said", flush=True)
sys.stdin.read()
"""


def test_it_outlives_the_process_that_came_first(server: Redis) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FIRST, server.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as rank_0:
        assert rank_0.stdout is not None
        assert rank_0.stdout.readline() == b"said\n"
        rank_0.kill()
    with stores_on(server, "job") as opened:
        assert opened().get("said by rank 0") == b"1"


def test_a_number_is_not_added_to_text(server: Redis) -> None:
    with stores_on(server, "job") as opened:
        store = opened()
        store.set("a", "text")
        with pytest.raises(DistStoreError, match="a holds no number"):
            store.add("a", 1)


def test_a_wrong_password_is_no_server_that_is_away(server: Redis, seen: client.Redis) -> None:
    seen.config_set("requirepass", "secret")
    with RedisStore(server.url, job="job", attempt=1, password="secret") as store:
        store.set("a", "1")
    with pytest.raises(DistError, match="password"):
        RedisStore(server.url, job="job", attempt=1, timeout=SHORT)


def test_a_wait_that_is_interrupted_holds_nobody_up(
    server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stores_on(server, "job") as opened:
        store = opened()
        answer, answers = store._reply, []

        def interrupted(*given: object) -> object:
            answers.append(given)
            if len(answers) == 2:
                raise KeyboardInterrupt
            return answer(*given)

        monkeypatch.setattr(store, "_reply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.get("never")
        next_one = threading.Thread(target=lambda: store.set("a", "1"), daemon=True)
        next_one.start()
        next_one.join(10)
        assert not next_one.is_alive(), "it goes behind no wait of before"


def test_what_is_written_again_lasts_anew(server: Redis, seen: client.Redis) -> None:
    with stores_on(server, "job") as opened:
        store = opened()
        store.set("a", "1")
        [key] = [key for key in seen.scan_iter() if key.endswith(":k:a")]
        seen.expire(key, 60)
        store.set("a", "2")
        assert seen.ttl(key) > 60


def test_of_many_that_are_missing_some_are_named(server: Redis) -> None:
    with stores_on(server, "job", timeout=SHORT) as opened:
        keys = [f"k{number}" for number in range(redis_store.NAMED + 1)]
        with pytest.raises(DistStoreError, match=r"11 of 11 keys were set by no rank: .*k9, …$"):
            opened().wait(keys)


def test_a_store_that_only_torch_keeps_goes_on_and_one_that_is_closed_has_no_connection(
    server: Redis, seen: client.Redis
) -> None:
    before = len(seen.client_list())
    store = RedisStore(server.url, job="job", attempt=1, timeout=SHORT)
    kept = weakref.ref(store)
    del store
    gc.collect()
    found = kept()
    assert found is not None
    found.set("a", "1")
    assert len(seen.client_list()) == before + 1
    found.close()
    eventually(lambda: len(seen.client_list()) == before, "its connection ends")
