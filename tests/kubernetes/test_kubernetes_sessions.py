"""What connects as a node is let go once its pod is: a token outlives its pod by some seconds."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from fastapi import FastAPI
from waiting import DEADLINE_S, eventually_async
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from holdfast.driver.adapters.kubernetes import identity, names
from holdfast.driver.adapters.kubernetes.identity import PodIdentity
from holdfast.driver.adapters.kubernetes.podbook import PodBook
from holdfast.driver.adapters.websocket.sessions import Sessions
from holdfast.driver.core.events import ExecutorConnected, ExecutorDisconnected
from holdfast.driver.serve.server import Server
from holdfast.driver.watch import Settings as WatchSettings
from holdfast.driver.watch import Watch
from holdfast.kit.clock import SystemClock
from holdfast.kubeapi.client import Client
from holdfast.protocol.messages import Hello, Refused, ToExecutor, Welcome
from holdfast.protocol.version import PROTOCOL_VERSION
from holdfast.protocol.wire import Decoder, encode

Object = dict[str, Any]


class Reviewer:
    """The API server, to whom each token is the UID of its pod."""

    async def ask(self, path: str, body: Object) -> Object:
        user = {"extra": {identity.POD_UID: [body["spec"]["token"]]}}
        return {"status": {"authenticated": True, "audiences": [names.AUDIENCE], "user": user}}


def pod_on(node: str, *, uid: str, version: int) -> Object:
    owner = {"controller": True, "apiVersion": names.API_VERSION, "uid": "job"}
    metadata = {
        "name": f"job-{uid}",
        "namespace": "default",
        "uid": uid,
        "resourceVersion": str(version),
        "labels": {names.SLOT: "0", names.INCARNATION: "1"},
        "annotations": {names.NODE: node},
        "ownerReferences": [owner],
    }
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {}}


class Edge:
    """A driver's edge on loopback, with `pods` on node-1 and node-2."""

    def __init__(self) -> None:
        self.book = PodBook()
        self.pods = {
            node: pod_on(node, uid=f"uid-of-{node}", version=at)
            for at, node in enumerate(("node-1", "node-2"), start=1)
        }
        for pod in self.pods.values():
            self.book.put(pod)
        self.events: list[Any] = []
        self.is_listed = True
        self.at = ""

    async def listed(self) -> None:
        if not self.is_listed:
            raise TimeoutError

    def connect(self, node: str) -> connect:
        return connect(
            f"ws://{self.at}/v1alpha1/nodes/{node}/executor",
            additional_headers={"Authorization": f"Bearer uid-of-{node}"},
            compression=None,
            proxy=None,
        )

    def left(self) -> list[str]:
        return [each.node for each in self.events if isinstance(each, ExecutorDisconnected)]


@pytest.fixture
async def edge() -> AsyncIterator[Edge]:
    made = Edge()
    client = cast(Client, Reviewer())
    who = PodIdentity(
        client, made.book, hears=lambda pod: True, listed=made.listed, clock=SystemClock()
    )
    sessions = Sessions(
        refusal=who.refusal,
        watch=Watch(WatchSettings()),
        emit=lambda event, done=None: made.events.append(event),
        term=lambda: 1,
        now=lambda: 0.0,
        heartbeat_period_s=0.5,
    )
    who.when_gone(sessions.drop)
    listening = socket.create_server(("127.0.0.1", 0))
    made.at = f"127.0.0.1:{listening.getsockname()[1]}"
    server = Server(sessions.before(FastAPI()))
    serving = asyncio.create_task(server.serve([listening]))
    yield made
    server.should_exit = True
    await serving


async def greeted(client: ClientConnection, node: str) -> None:
    hello = Hello(protocol=PROTOCOL_VERSION, process="executor", node=node, incarnation="i")
    await client.send(encode(hello))
    assert isinstance(await told(client), Welcome)


async def told(client: ClientConnection) -> Any:
    frame = await asyncio.wait_for(client.recv(decode=False), DEADLINE_S)
    return Decoder[Any](ToExecutor).decode(frame)


async def test_the_connection_of_a_pod_that_goes_ends_and_says_why_and_no_other_does(
    edge: Edge,
) -> None:
    async with edge.connect("node-1") as gone, edge.connect("node-2") as stays:
        await greeted(gone, "node-1")
        await greeted(stays, "node-2")
        edge.book.drop({**edge.pods["node-1"]})
        refused = await told(gone)
        assert isinstance(refused, Refused)
        assert refused.why == "pod job-uid-of-node-1 is gone"
        with pytest.raises(ConnectionClosed):
            await told(gone)
        await eventually_async(lambda: edge.left() == ["node-1"])
        await asyncio.wait_for(await stays.ping(), DEADLINE_S)


async def test_nor_is_one_welcomed_that_was_admitted_while_its_pod_was_there(edge: Edge) -> None:
    async with edge.connect("node-1") as client:
        edge.book.drop(edge.pods["node-1"])
        hello = Hello(protocol=PROTOCOL_VERSION, process="executor", node="node-1", incarnation="i")
        await client.send(encode(hello))
        refused = await told(client)
        assert isinstance(refused, Refused)
        assert refused.why == "its pod has lost node node-1 since"
    assert edge.events == []


async def test_nor_is_it_admitted_again_though_its_token_is_still_good(edge: Edge) -> None:
    async with edge.connect("node-1") as client:
        await greeted(client, "node-1")
        await eventually_async(lambda: any(isinstance(e, ExecutorConnected) for e in edge.events))
        edge.book.drop(edge.pods["node-1"])
    with pytest.raises(InvalidStatus) as refused:
        async with edge.connect("node-1"):
            pass
    assert refused.value.response.status_code == 401
    assert b"gone" in refused.value.response.body


async def test_a_node_hears_that_nothing_is_known_yet_not_that_it_is_none_of_ours(
    edge: Edge,
) -> None:
    edge.is_listed = False
    with pytest.raises(InvalidStatus) as told:
        await edge.connect("node-1")
    assert told.value.response.status_code == 503
    body = json.loads(told.value.response.body)
    assert body["detail"] == "this driver has not seen the pods of the cluster yet. Try again."
    edge.is_listed = True
    async with edge.connect("node-1") as client:
        await greeted(client, "node-1")
