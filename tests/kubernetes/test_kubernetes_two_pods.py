"""Two pods say that they are for one node: what its job is to do is told to the job's own alone.

The driver is a process on a real API server, whose nodes have no machines: the test connects in the
place of what would run in the pods, with the tokens that those would have.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from operated import Operated, said
from operated import operated as started
from waiting import DEADLINE_S, LOOK_S
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from holdfast.driver.adapters.kubernetes import names
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.protocol.messages import Desired, Hello, Refused, ToExecutor, Welcome
from holdfast.protocol.version import PROTOCOL_VERSION
from holdfast.protocol.wire import Decoder, encode

pytestmark = pytest.mark.kubernetes

NODE = "two-pods-1"


@pytest.fixture
def operated(crd: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    with started(crd, tmp_path_factory.mktemp("driver"), name="two-pods", nodes=1) as driven:
        yield driven


async def test_what_a_job_is_to_do_is_told_to_its_own_pod_and_to_no_other_of_its_node(
    operated: Operated,
) -> None:
    forge(operated)
    async with (
        await connected(operated, "forged") as forged,
        await connected(operated, "forged") as quiet,
    ):
        await greet(forged)
        assert isinstance(await told(forged), Welcome)
        operated.apply("mine", env={"KEY": "secret"})
        *before, last = await all_told(forged)
        assert [each.task for each in before if isinstance(each, Desired)] == []
        assert isinstance(last, Refused)
        assert last.why == "another pod has its place"
        await greet(quiet)
        assert [type(each) for each in await all_told(quiet)] == [Refused]
    operated.until("mine", lambda status: said(status, "Allocated") == "True", "it has its node")
    (own,) = operated.pods("mine")
    async with await connected(operated, own) as mine:
        await greet(mine)
        assert await task_told(mine) == {"KEY": "secret"}
        why = await refusal(operated, "forged")
        assert f"pod forged is not the one that has node {NODE}" in why
        await asyncio.wait_for(await mine.ping(), DEADLINE_S)
    operated.kubectl("delete", "pod", "forged", "--force", "--grace-period=0")
    operated.clear("mine")


def forge(operated: Operated) -> None:
    """A pod as somebody makes it who may edit a namespace: what it says of an owner is not so."""
    owner = {"apiVersion": names.API_VERSION, "kind": "Anything", "name": "it", "uid": "uid-of-it"}
    metadata = {
        "name": "forged",
        "labels": {"app.kubernetes.io/managed-by": names.MANAGER},
        "annotations": {names.NODE: NODE},
        "ownerReferences": [{**owner, "controller": True}],
    }
    spec = {"containers": [{"name": "c", "image": "x"}], "nodeName": NODE}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    operated.plane.kubectl("-n", operated.namespace, "create", "-f", "-", input=json.dumps(pod))


async def connected(operated: Operated, pod: str) -> ClientConnection:
    """As the node's executor, with the token that the pod has, once it is let in: the driver may
    have yet to see the pod.
    """
    async with asyncio.timeout(DEADLINE_S):
        while True:
            with suppress(InvalidStatus):
                return await connecting(operated, pod)
            await asyncio.sleep(LOOK_S)


async def refusal(operated: Operated, pod: str) -> str:
    """Why it is not let in, once that is known."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            with pytest.raises(InvalidStatus) as refused:
                await connecting(operated, pod)
            if refused.value.response.status_code != 503:
                return str(refused.value.response.body)
            await asyncio.sleep(LOOK_S)


def connecting(operated: Operated, pod: str) -> connect:
    bound = ("--bound-object-kind", "Pod", "--bound-object-name", pod)
    token = operated.kubectl("create", "token", "default", "--audience", names.AUDIENCE, *bound)
    return connect(
        f"ws{operated.url().removeprefix('http')}/v1alpha1/nodes/{NODE}/executor",
        additional_headers={"Authorization": f"Bearer {token.strip()}"},
        compression=None,
        open_timeout=DEADLINE_S,
        proxy=None,
    )


async def greet(client: ClientConnection) -> None:
    hello = Hello(protocol=PROTOCOL_VERSION, process="executor", node=NODE, incarnation="i")
    await client.send(encode(hello))


async def told(client: ClientConnection) -> Any:
    frame = await asyncio.wait_for(client.recv(decode=False), DEADLINE_S)
    return Decoder[Any](ToExecutor).decode(frame)


async def all_told(client: ClientConnection) -> list[Any]:
    """Everything up to the end of the connection."""
    every = []
    while True:
        try:
            every.append(await told(client))
        except ConnectionClosed:
            return every


async def task_told(client: ClientConnection) -> dict[str, str]:
    """The environment of the first task that it is told of."""
    while not (isinstance(message := await told(client), Desired) and message.task):
        pass
    return message.task.env
