"""What the status of a pod says of a container that was killed for memory, as kubelets write it."""

from typing import Any

import pytest
from made_objects import Object, order

from holdfast.driver.adapters.kubernetes import pods, podspec
from holdfast.driver.adapters.kubernetes.podbook import PodBook

KILLED: Object = {
    "exitCode": 137,
    "reason": "OOMKilled",
    "startedAt": "2026-01-01T00:00:00Z",
    "finishedAt": "2026-01-01T00:07:11Z",
    "containerID": "containerd://4f1c",
}
AGAIN = {**KILLED, "finishedAt": "2026-01-01T00:09:40Z", "containerID": "containerd://77ab"}
RUNNING: Object = {"running": {"startedAt": "2026-01-01T00:07:12Z"}}
WAITING: Object = {
    "waiting": {
        "reason": "CrashLoopBackOff",
        "message": "back-off 10s restarting failed container=executor pod=speech-3-2_lab(uid-9)",
    }
}


def pod(state: Object, last: Object | None = None, *, name: str = "executor") -> dict[str, Any]:
    made = podspec.manifest(order())
    made["metadata"] |= {"uid": "pod-9"}
    container = {"name": name, "state": state, "lastState": {"terminated": last} if last else {}}
    return made | {"status": {"phase": "Running", "containerStatuses": [container]}}


@pytest.mark.parametrize(
    ("seen", "container"),
    [
        pytest.param(pod({"terminated": KILLED}), "containerd://4f1c", id="it-has-just-ended"),
        pytest.param(pod(WAITING, KILLED), "containerd://4f1c", id="it-waits-to-be-started"),
        pytest.param(pod(RUNNING, KILLED), "containerd://4f1c", id="it-runs-again"),
        pytest.param(pod({"terminated": AGAIN}, KILLED), "containerd://77ab", id="the-newest"),
        pytest.param(pod(RUNNING), "", id="it-never-ended"),
        pytest.param(pod(RUNNING, {**KILLED, "reason": "Error"}), "", id="killed-by-somebody"),
        pytest.param(pod(RUNNING, {**KILLED, "exitCode": 1}), "", id="a-rank-was-killed-before"),
        pytest.param(pod(RUNNING, KILLED, name="proxy"), "", id="a-container-of-others"),
        pytest.param(podspec.manifest(order()), "", id="no-status-yet"),
    ],
)
def test_which_container_was_killed_for_memory(seen: Object, container: str) -> None:
    assert pods.starved(seen) == container


def test_each_kill_is_told_once_and_one_from_before_the_first_look_never() -> None:
    told: list[str] = []
    book = PodBook()
    book.when_starved(lambda seen: told.append(pods.starved(seen)))
    book.put(pod(RUNNING, KILLED))
    book.put(pod(RUNNING, KILLED))
    assert told == []
    for seen in (pod({"terminated": AGAIN}, KILLED), pod(WAITING, AGAIN), pod(RUNNING, AGAIN)):
        book.put(seen)
    assert told == ["containerd://77ab"]


@pytest.mark.parametrize(
    ("limits", "limit_bytes"),
    [({"memory": "8Gi"}, 8 << 30), ({"memory": 1_000_000}, 1_000_000), ({"cpu": 2}, 0), ({}, 0)],
)
def test_the_limit_that_is_told_is_that_of_the_jobs_spec(limits: Object, limit_bytes: int) -> None:
    assert podspec.memory_limit({"resources": {"limits": limits}}) == limit_bytes
