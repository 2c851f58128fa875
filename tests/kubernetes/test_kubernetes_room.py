"""Which nodes others have filled: one sum a node, and what is said where that is not known."""

import asyncio
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import eventually_async

from holdfast.driver.adapters.kubernetes import names
from holdfast.driver.adapters.kubernetes.room import Room
from holdfast.driver.adapters.kubernetes.tally import Tally
from holdfast.driver.adapters.kubernetes.watching import Event
from holdfast.driver.ports import Fits

Object = dict[str, Any]
GPU = "nvidia.com/gpu"


def pod(name: str, node: str, *, version: int = 1, uid: str = "", **more: Any) -> Object:
    """One of somebody else. `more`: cpu, priority, class_name, and further metadata."""
    requests = {"cpu": more.pop("cpu", "1")}
    spec = {
        "nodeName": node,
        "priority": more.pop("priority", 0),
        "priorityClassName": more.pop("class_name", ""),
        "containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}],
    }
    phase = more.pop("phase", "Running")
    metadata = {
        "name": name,
        "namespace": more.pop("namespace", "theirs"),
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        **more,
    }
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def listed(tally: Tally, *pods: Object, version: int = 10) -> None:
    page = {"metadata": {"resourceVersion": str(version)}}
    keys: set[str] = set()
    list(tally.page(pods, keys))
    list(tally.end(keys, page))


def test_all_pods_of_a_node_are_one_sum_and_those_that_end_are_none() -> None:
    tally = Tally(None)
    going = pod("c", "n1", deletionTimestamp="2026-01-01T00:00:00Z")
    over = pod("d", "n1", phase="Failed")
    listed(tally, pod("a", "n1"), pod("b", "n1", cpu="500m"), going, over, pod("e", "n2"))
    assert tally.used("n1", by=None) == {"cpu": 1_500, "pods": 2_000}
    list(tally.event("DELETED", pod("a", "n1", version=11)))
    assert tally.used("n1", by=None) == {"cpu": 500, "pods": 1_000}
    list(tally.event("MODIFIED", pod("b", "n1", version=12, cpu="2")))
    assert tally.used("n1", by=None) == {"cpu": 2_000, "pods": 1_000}
    list(tally.event("MODIFIED", pod("b", "n1", version=13, phase="Succeeded")))
    assert tally.used("n1", by=None) == {}


def test_pods_of_less_priority_can_be_pushed_off_and_do_not_count() -> None:
    tally = Tally(None)
    listed(tally, pod("spare", "n1", priority=-10, cpu="6"), pod("a", "n1", priority=5))
    assert tally.used("n1", by=0)["cpu"] == 1_000
    assert tally.used("n1", by=-10)["cpu"] == 7_000
    assert tally.used("n1", by=6) == {}


def test_pods_of_ours_are_the_journals_matter_and_those_of_another_driver_are_not() -> None:
    labels = {"app.kubernetes.io/managed-by": names.MANAGER}
    mine = pod("a", "n1", namespace="mine", labels=labels)
    theirs = pod("b", "n1", namespace="theirs", labels=labels)
    every, one = Tally(None), Tally({"mine"})
    for tally in (every, one):
        listed(tally, mine, theirs)
    assert every.used("n1", by=None) == {}
    assert one.used("n1", by=None) == {"cpu": 1_000, "pods": 1_000}


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"),
            st.sampled_from(["n1", "n2"]),
            st.integers(0, 3),
            st.sampled_from(["MODIFIED", "DELETED", "list"]),
            st.sampled_from(["1", "2"]),
        )
    )
)
def test_the_sums_are_those_of_the_pods_that_are_there(happened: list[Any]) -> None:
    tally, there = Tally(None), {}
    for version, (name, node, cpu, kind, uid) in enumerate(happened, start=11):
        told = pod(name, node, version=version, uid=uid, cpu=str(cpu), priority=cpu % 2)
        if kind == "DELETED":
            there.pop(name, None)
        else:
            there[name] = told
        if kind == "list":
            listed(tally, *there.values(), version=version)
        else:
            list(tally.event(kind, told))
    sums: dict[str, Counter[str]] = {"n1": Counter(), "n2": Counter()}
    for told in there.values():
        cpu = told["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        sums[told["spec"]["nodeName"]].update({"cpu": 1000 * int(cpu), "pods": 1000})
    for node, wanted in sums.items():
        assert Counter(tally.used(node, by=None)) == wanted, there


def test_fifteen_thousand_pods_of_others_take_few_mebibytes() -> None:
    """5.0 MiB when it was written: objects as JSON would be hundreds."""
    tally, keys = Tally(None), set[str]()
    tracemalloc.start()
    for page in range(150):
        numbers = range(100 * page, 100 * page + 100)
        items = [pod(f"web-{n:010}", f"node-{n % 2000}", cpu=f"{n % 7}") for n in numbers]
        list(tally.page(msgspec.json.decode(msgspec.json.encode(items)), keys))
    list(tally.end(keys, {"metadata": {"resourceVersion": "10"}}))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(tally.store) == 15_000
    assert taken < 16 * 2**20


class Server:
    """All pods of a cluster, for one reader. `may`: whether they may be listed."""

    def __init__(self, *pods: Object, may: bool = True) -> None:
        self.may = may
        self.asked: list[Object] = []
        self.lists = 0
        self._pods = pods
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    async def ask(self, path: str, question: Object) -> Object:
        self.asked.append(question)
        return {"status": {"allowed": self.may}}

    async def pages(self, path: str, **query: object) -> AsyncIterator[Object]:
        self.lists += 1
        yield {"metadata": {"resourceVersion": "10"}, "items": list(self._pods)}

    async def watch(self, path: str, **query: object) -> AsyncIterator[Event]:
        while True:
            yield await self._events.get()

    def say(self, kind: Any, told: Object) -> None:
        self._events.put_nowait(Event(type=kind, object=told))


NODES: dict[str, Object] = {
    f"n{number}": {
        "metadata": {"name": f"n{number}"},
        "status": {"allocatable": {"cpu": "8", GPU: "8" if number > 1 else "0", "pods": "110"}},
    }
    for number in (1, 2, 3)
}


def wanted(cpu: str = "2", **more: Any) -> Object:
    resources = {"requests": {"cpu": cpu}, "limits": more.pop("limits", {})}
    return {"spec": {"containers": [{"name": "c", "resources": resources}], **more}}


@asynccontextmanager
async def following(server: Server, namespace: str = "") -> AsyncIterator[tuple[Room, list[Fits]]]:
    told: list[Fits] = []
    room = Room(server, NODES, namespace=namespace, tell=told.append)  # type: ignore[arg-type]
    task = asyncio.create_task(room.follow())
    await room.known()
    try:
        yield room, told
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_node_that_others_filled_is_refused_at_once_with_all_that_are_like_it() -> None:
    server = Server(pod("a", "n2", cpu="7"), pod("b", "n3", cpu="6"))
    async with following(server) as (room, _):
        why = "it has no room: of cpu 1 of 8 are free, and 2 are needed"
        assert room.misfit(NODES["n2"], wanted()) == why
        assert room.misfit(NODES["n3"], wanted()) == ""
        gpus = wanted(limits={GPU: 8})
        assert room.refuse("speech", gpus) == {"n1": f"it has no {GPU}", "n2": why}


async def test_once_there_is_room_again_that_is_told_once() -> None:
    server = Server(pod("a", "n2", cpu="4"), pod("b", "n2", cpu="4"))
    async with following(server) as (room, told):
        room.refuse("speech", wanted())
        server.say("MODIFIED", pod("a", "n2", version=11, cpu="3"))
        server.say("DELETED", pod("b", "n2", version=12, cpu="4"))
        server.say("DELETED", pod("a", "n2", version=13, cpu="3"))
        server.say("ADDED", pod("c", "n3", version=14))
        await eventually_async(lambda: "theirs/c" in room.reflector.store, "all was told")
        assert told == [Fits(job="speech", node="n2")]
        assert room.misfit(NODES["n2"], wanted()) == ""


async def test_where_rights_end_at_a_namespace_nothing_is_listed_and_that_is_said() -> None:
    server = Server(pod("a", "n2", cpu="8"), may=False)
    async with following(server, "lab") as (room, _):
        assert room.misfit(NODES["n2"], wanted()) == "", "the scheduler says what it is"
        assert "may not list the pods of all namespaces" in room.unseen()
        assert server.lists == 0
        asked = {each["spec"]["resourceAttributes"]["verb"] for each in server.asked}
        assert asked == {"list", "watch"}


async def test_who_may_push_others_off_is_never_refused_for_them() -> None:
    """A class that no pod has yet has no priority that is known: then the scheduler decides."""
    low = pod("a", "n2", cpu="8", priority=-10, class_name="spare")
    high = pod("b", "n3", cpu="8", priority=100, class_name="urgent")
    async with following(Server(low, high)) as (room, _):
        assert room.misfit(NODES["n2"], wanted()) == ""
        assert room.misfit(NODES["n3"], wanted()) != ""
        assert room.misfit(NODES["n3"], wanted(priorityClassName="urgent")) != ""
        assert room.misfit(NODES["n3"], wanted(priorityClassName="unseen")) == ""
        assert room.misfit(NODES["n2"], wanted(priorityClassName="spare")) != ""


@pytest.mark.parametrize("cpu", ["9", "80"])
async def test_what_no_node_could_ever_take_needs_no_list(cpu: str) -> None:
    async with following(Server(may=False)) as (room, _):
        assert room.misfit(NODES["n2"], wanted(cpu)) == f"of cpu it has 8, and {cpu} are needed"
