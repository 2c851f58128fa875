"""Where ranks meet and what NCCL is told: what is refused, and the environment that follows."""

from typing import Any

import pytest

from holdfast.protocol.collectives import environment, told, unusual
from holdfast.protocol.communication import Communication
from holdfast.protocol.jobcheck import check
from holdfast.protocol.mistakes import BadDocument

REDIS = "Use redis://host:6379/0, rediss://host:6379/0 for TLS, or unix:///path/of/socket."
NAMES = "Name each wholly, e.g. [eth0, eth1]: at most 15 characters, none of / : , ^ =."


def job(**communication: Any) -> dict[str, Any]:
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "speech"},
        "spec": {"command": ["train"], "communication": communication},
    }


def refused(**communication: Any) -> list[str]:
    with pytest.raises(BadDocument) as mistakes:
        check(job(**communication))
    return [str(each) for each in mistakes.value.mistakes]


@pytest.mark.parametrize(
    "url", ["redis://h", "redis://h:6379/0", "rediss://[::1]:1/15", "unix:///run/redis.sock", ""]
)
def test_a_redis_is_taken(url: str) -> None:
    assert check(job(rendezvous=url)).spec.communication.rendezvous == url


@pytest.mark.parametrize(
    "url",
    [
        *("http://h", "h:6379", "redis://", "redis://h/x", "redis://h:0", "redis://h:99999"),
        *("unix://run/redis.sock", "redis://h/0?a=b", "redis://[::1", "file:///x"),
    ],
)
def test_what_is_no_redis_is_refused_in_a_sentence(url: str) -> None:
    why = "this is no Redis where ranks could meet."
    assert refused(rendezvous=url) == [f"spec.communication.rendezvous: {why}  {REDIS}"]


@pytest.mark.parametrize("url", ["redis://user:secret@h/0", "redis://:secret@h"])
def test_a_password_is_refused_and_not_shown(url: str) -> None:
    [said] = refused(rendezvous=url)
    assert "a password has no place in a URL" in said
    assert "REDISCLI_AUTH" in said
    assert "secret" not in said


@pytest.mark.parametrize("name", ["eth 0", "", "=eth0", "^docker", "a/b", "x" * 16, "eth0,eth1"])
def test_what_is_no_name_of_an_interface_is_refused(name: str) -> None:
    said = f"{name!r}: this is no name of a network interface.  {NAMES}"
    assert refused(interfaces=["eth0", name]) == [f"spec.communication.interfaces: {said}"]


def test_numbers_out_of_bounds_are_told_together() -> None:
    assert refused(ibTimeout=32, ibRetries=8, watchdogS=0) == [
        "spec.communication.ibTimeout: 32 is out of bounds.  Set at most 31.",
        "spec.communication.ibRetries: 8 is out of bounds.  Set at most 7.",
        "spec.communication.watchdogS: 0 is out of bounds.  Set at least 1.",
    ]


def test_what_nobody_asks_for_is_what_large_jobs_use() -> None:
    assert (
        Communication().environment()
        == environment()
        == {
            "NCCL_P2P_NET_CHUNKSIZE": "524288",
            "TORCH_NCCL_HIGH_PRIORITY": "1",
            "CUDA_DEVICE_MAX_CONNECTIONS": "1",
            "NCCL_IB_TIMEOUT": "20",
            "NCCL_IB_RETRY_CNT": "7",
        }
    )


def test_each_field_comes_to_the_environment() -> None:
    asked = check(
        job(
            interfaces=["eth0", "eth1"],
            ncclDefaults=False,
            ibTimeout=22,
            ibRetries=5,
            watchdogS=300,
        )
    )
    assert asked.spec.communication.environment() == {
        "NCCL_IB_TIMEOUT": "22",
        "NCCL_IB_RETRY_CNT": "5",
        "NCCL_SOCKET_IFNAME": "=eth0,eth1",
        "GLOO_SOCKET_IFNAME": "eth0,eth1",
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "300",
    }


def test_the_record_has_what_the_jobs_own_environment_says_of_it_and_nothing_else() -> None:
    own = {"NCCL_IB_TIMEOUT": "23", "NCCL_DEBUG": "INFO", "PATH": "/bin", "SECRET": "x"}
    assert told({"NCCL_IB_TIMEOUT": "20", "NCCL_IB_RETRY_CNT": "7"}, own) == {
        "NCCL_IB_TIMEOUT": "23",
        "NCCL_IB_RETRY_CNT": "7",
        "NCCL_DEBUG": "INFO",
    }


def test_who_is_told_otherwise_than_others_is_known_by_what_differs_and_what_is_missing() -> None:
    assert unusual(environment()) == []
    assert unusual(environment(ib_timeout=22) | {"NCCL_DEBUG": "INFO"}) == [
        "NCCL_DEBUG=INFO",
        "NCCL_IB_TIMEOUT=22",
    ]
    assert unusual(environment(large=False)) == [
        "no CUDA_DEVICE_MAX_CONNECTIONS",
        "no NCCL_P2P_NET_CHUNKSIZE",
        "no TORCH_NCCL_HIGH_PRIORITY",
    ]


def test_of_a_job_from_before_nothing_is_known() -> None:
    assert unusual({}) == []
