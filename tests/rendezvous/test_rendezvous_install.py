"""Where a rank finds its store: by its environment, of this very submission; what is refused."""

import sys
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace

import pytest
from redis_server import redis_server

pytest.importorskip("torch")
import redis as client
from torch.distributed import DistError, DistStoreError

from holdfast.lab.redis import Redis
from holdfast.rendezvous.install import install, store_of
from holdfast.rendezvous.redis_store import RedisStore
from holdfast.rendezvous.trial import wrong_with

pytestmark = pytest.mark.torch

LIMIT = timedelta(seconds=2)


@pytest.fixture
def server() -> Iterator[Redis]:
    with redis_server() as server:
        yield server


def rank(server: Redis, **told: str) -> RedisStore:
    environment = {
        "HOLDFAST_RENDEZVOUS": server.url,
        "HOLDFAST_JOB": "speech",
        "HOLDFAST_LIFE": "life-1",
        "HOLDFAST_EPOCH": "3",
    }
    store = store_of(environment | told, timeout=LIMIT)
    assert isinstance(store, RedisStore)
    return store


def test_ranks_of_an_attempt_meet_and_earlier_ones_do_not(server: Redis) -> None:
    with rank(server) as one, rank(server) as other:
        one.set("a", "1")
        assert other.get("a") == b"1"
        assert one.timeout == LIMIT
        with pytest.raises(DistStoreError, match="attempt 2 is over"):
            rank(server, HOLDFAST_EPOCH="2")


def test_a_job_that_is_submitted_again_begins_with_its_first_attempt(server: Redis) -> None:
    with rank(server) as one, rank(server, HOLDFAST_LIFE="life-2", HOLDFAST_EPOCH="1") as again:
        one.set("a", "1")
        assert not again.check(["a"])


def test_the_password_comes_from_the_environment(server: Redis) -> None:
    with client.Redis.from_url(server.url) as seen:
        seen.config_set("requirepass", "secret")
        with rank(server, REDISCLI_AUTH="secret") as store:
            store.set("a", "1")
        with pytest.raises(DistError, match="wants a password"):
            rank(server)


def test_a_person_is_told_of_a_password_before_anything_starts(
    server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wrong_with(server.url) == ""
    with client.Redis.from_url(server.url) as seen:
        seen.config_set("requirepass", "secret")
    assert wrong_with(server.url).endswith("Set REDISCLI_AUTH.")
    monkeypatch.setenv("REDISCLI_AUTH", "secret")
    assert wrong_with(server.url) == ""


def test_a_redis_that_is_too_old_is_refused(server: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.Redis, "info", lambda self, section: {"redis_version": "6.0.9"})
    said = f"{server.url} is Redis 6.0.9. It has to be 6.2 or newer."
    assert wrong_with(server.url) == said


def test_where_the_library_is_missing_both_say_which(
    server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.delitem(sys.modules, "holdfast.rendezvous.redis_store")
    assert "holdfast[redis]" in wrong_with(server.url)
    with pytest.raises(ModuleNotFoundError, match=r"holdfast\[redis\]"):
        rank(server)


def test_a_job_that_names_no_redis_keeps_torchs_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = SimpleNamespace(_rendezvous_handlers={"env": "torch's own"})
    monkeypatch.setitem(sys.modules, "torch.distributed.rendezvous", ways)
    monkeypatch.setitem(sys.modules, "torch.distributed.distributed_c10d", SimpleNamespace())
    install({"HOLDFAST_RENDEZVOUS": ""})
    assert ways._rendezvous_handlers == {"env": "torch's own"}
    install({"HOLDFAST_RENDEZVOUS": "redis://h"})
    assert ways._rendezvous_handlers["env"] != "torch's own"


def test_a_torch_that_has_no_place_for_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    older = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "torch.distributed.distributed_c10d", older)
    install({})
    assert vars(older) == {}
