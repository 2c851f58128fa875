"""A pod that is not where it was to be, or was changed on its way, is said and not trained on."""

from functools import partial
from typing import Any

import msgspec
import pytest
from waiting import DEADLINE_S

from holdfast.driver.adapters.kubernetes import placing, pods, podspec
from holdfast.driver.adapters.kubernetes.holds import Hold, stray
from holdfast.driver.adapters.kubernetes.placing import Placing, Unwanted
from holdfast.driver.adapters.kubernetes.podbook import PodBook
from holdfast.driver.adapters.kubernetes.retry import retry
from holdfast.driver.ports import BarredError
from holdfast.kubeapi.errors import Unavailable, error_of_answer
from holdfast.protocol.nodeenv import Drivers

Object = dict[str, Any]

JOB: Object = {
    "metadata": {"name": "speech", "namespace": "lab", "uid": "job-1"},
    "spec": {"nodes": 1, "pod": {"image": "speech:1"}},
}
NODE: Object = {"metadata": {"name": "node-1"}, "spec": {}, "status": {"allocatable": {}}}


class Placer:
    """An API server that puts each pod on `node` at once, and writes down what is deleted."""

    def __init__(self, node: str, **changed: Any) -> None:
        self._node = node
        self._changed = changed
        self.deleted: list[str] = []
        self.refusals: list[str] = []  # of the next creations
        self.status = 403

    async def may_change(self) -> None:
        pass

    async def create(self, path: str, body: Object, **query: object) -> Object:
        if self.refusals:
            said = {"kind": "Status", "message": self.refusals.pop(0), "code": self.status}
            raise error_of_answer("create pod", self.status, {}, msgspec.json.encode(said))
        metadata = {**body["metadata"], "uid": "pod-1", "resourceVersion": "1"}
        spec = {**body["spec"], **self._changed, "nodeName": self._node}
        return {**body, "metadata": metadata, "spec": spec}

    async def delete(self, path: str, **query: object) -> Object:
        self.deleted.append(path)
        return {}


async def placed(client: Placer) -> Object:
    pods_of = Placing(
        client,  # type: ignore[arg-type]
        PodBook(),
        drivers=Drivers(["http://a:1"]),
        placed_within_s=DEADLINE_S,
    )
    with pods_of.joined(JOB) as gang:
        hold = Hold("speech", "job-1", 0)
        pod = await pods_of.pod(hold, JOB, NODE, gang, check=lambda: None)
        await pods_of.placed(pod, gang)
    return pod


async def test_a_pod_of_a_node_that_was_given_up_meanwhile_does_not_make_its_start_whole() -> None:
    client, book = Placer(""), PodBook()
    pods_of = Placing(client, book, drivers=Drivers(["http://a:1"]))  # type: ignore[arg-type]
    job = {**JOB, "spec": {**JOB["spec"], "nodes": 1 + 1}}
    looks = iter((False, True))

    def check() -> None:
        if next(looks):
            raise Unwanted("node node-1 is wanted no more")

    with pods_of.joined(job) as gang:
        with pytest.raises(Unwanted):
            await pods_of.pod(Hold("speech", "job-1", 0), job, NODE, gang, check=check)
        assert gang.coming == 0
        assert not gang.why
    assert [each["metadata"]["uid"] for each in book.on("node-1")] == ["pod-1"]


async def test_a_pod_that_something_put_on_another_node_is_deleted_and_that_is_said() -> None:
    client = Placer("node-2")
    with pytest.raises(BarredError, match=r"put on node node-2 instead of node-1"):
        await placed(client)
    assert client.deleted == ["/api/v1/namespaces/lab/pods/speech-0-1"]


async def test_a_pod_that_something_added_to_is_the_jobs_pod() -> None:
    client = Placer("node-1", priority=5, tolerations=[], runtimeClassName="theirs")
    assert pods.owner_uid(await placed(client)) == "job-1"
    assert client.deleted == []


async def test_a_role_that_is_missing_for_a_moment_is_held_against_nobody() -> None:
    client = Placer("node-1")
    client.refusals = [
        'pods is forbidden: User "system:serviceaccount:holdfast:holdfast-driver" cannot create '
        'resource "pods" in API group "" in the namespace "lab"'
    ]
    assert pods.owner_uid(await placed(client)) == "job-1"


DENIED = 'admission webhook "policy.example" denied the request: no label "team"'


@pytest.mark.parametrize(
    ("status", "said", "told"),
    [
        (403, 'pods "speech-0-1" is forbidden: violates PodSecurity "restricted"', "violates Pod"),
        (400, DENIED, DENIED),
        (404, 'namespaces "lab" not found', 'namespaces "lab" not found'),
        (422, 'Pod "speech-0-1" is invalid: spec.x: no', "spec.x: no"),
    ],
)
async def test_what_the_api_server_does_not_want_is_the_jobs_matter_and_is_told_at_once(
    status: int, said: str, told: str
) -> None:
    client = Placer("node-1")
    client.refusals, client.status = [said], status
    with pytest.raises(BarredError, match=told):
        await placed(client)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ('failed calling webhook "policy.example": connection refused', BarredError),
        ("etcdserver: request timed out", Unavailable),
    ],
)
async def test_a_webhook_that_cannot_be_called_is_the_jobs_matter_a_server_that_cannot_is_not(
    monkeypatch: pytest.MonkeyPatch, said: str, error: type[Exception]
) -> None:
    monkeypatch.setattr(placing, "retry", partial(retry, within_s=0.0))
    client = Placer("node-1")
    client.refusals, client.status = [said], 500
    with pytest.raises(error, match=said):
        await placed(client)


GOING: Object = {
    **JOB,
    "metadata": {**JOB["metadata"], "deletionTimestamp": "2026-11-22T00:00:00Z"},
}
ANOTHER: Object = {**JOB, "metadata": {**JOB["metadata"], "uid": "job-2"}}


@pytest.mark.parametrize(
    ("owner", "held_by", "is_stray"),
    [(JOB, "", True), (JOB, "pod-2", True), (JOB, "pod-1", False)]
    + [(gone, "", False) for gone in (None, GOING, ANOTHER)],
)
def test_a_pod_of_a_job_is_a_stray_unless_it_goes_with_its_job(
    owner: Object | None, held_by: str, is_stray: bool
) -> None:
    made = podspec.manifest(podspec.Order(JOB, "node-1", 0, 1, Drivers(["http://a:1"])))
    made["metadata"]["uid"] = "pod-1"
    assert stray(made, "speech", owner, held_by) == is_stray


def test_a_pod_of_a_trial_has_no_job_to_go_with() -> None:
    made: Object = {"metadata": {"uid": "pod-1"}}
    assert (stray(made, "", None, ""), stray(made, "", None, "pod-1")) == (True, False)
