"""Which nodes others have filled: one sum a node, and what is said where that is not known."""

import asyncio
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import Any

import msgspec
import pytest
import yaml
from deployed import DEPLOY
from hypothesis import given
from hypothesis import strategies as st
from waiting import DEADLINE_S, eventually_async

from holdfast.driver.adapters.kubernetes import names
from holdfast.driver.adapters.kubernetes.room import Room
from holdfast.driver.adapters.kubernetes.tally import Tally
from holdfast.driver.ports import Fits
from holdfast.kubeapi import paths
from holdfast.kubeapi.errors import Forbidden
from holdfast.kubeapi.watch_stream import Event

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
SHIPPED = list(yaml.safe_load_all((DEPLOY / "base" / "priorities.yaml").read_text()))


def pod(name: str, node: str, *, version: int = 1, uid: str = "", **more: Any) -> Object:
    """One of somebody else. `more`: cpu, priority, and further metadata."""
    requests = {"cpu": more.pop("cpu", "1")}
    spec = {
        "nodeName": node,
        "priority": more.pop("priority", 0),
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
    assert tally.used("n1", least=-inf) == {"cpu": 1_500, "pods": 2_000}
    list(tally.event("DELETED", pod("a", "n1", version=11)))
    assert tally.used("n1", least=-inf) == {"cpu": 500, "pods": 1_000}
    list(tally.event("MODIFIED", pod("b", "n1", version=12, cpu="2")))
    assert tally.used("n1", least=-inf) == {"cpu": 2_000, "pods": 1_000}
    list(tally.event("MODIFIED", pod("b", "n1", version=13, phase="Succeeded")))
    assert tally.used("n1", least=-inf) == {}


def test_pods_of_less_priority_can_be_pushed_off_and_do_not_count() -> None:
    tally = Tally(None)
    listed(tally, pod("spare", "n1", priority=-10, cpu="6"), pod("a", "n1", priority=5))
    assert tally.used("n1", least=0)["cpu"] == 1_000
    assert tally.used("n1", least=-10)["cpu"] == 7_000
    assert tally.used("n1", least=6) == {}


def test_pods_of_ours_are_the_journals_matter_and_those_of_another_driver_are_not() -> None:
    labels = {"app.kubernetes.io/managed-by": names.MANAGER}
    mine = pod("a", "n1", namespace="mine", labels=labels)
    theirs = pod("b", "n1", namespace="theirs", labels=labels)
    every, one = Tally(None), Tally({"mine"})
    for tally in (every, one):
        listed(tally, mine, theirs)
    assert every.used("n1", least=-inf) == {}
    assert one.used("n1", least=-inf) == {"cpu": 1_000, "pods": 1_000}


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
        assert Counter(tally.used(node, least=-inf)) == wanted, there


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
    """All pods of a cluster, and its PriorityClasses, for one reader of each. `may_not`: which of
    them may not be listed.
    """

    def __init__(self, *pods: Object, may_not: str = "", classes: Sequence[Object] = ()) -> None:
        self.may_not = may_not
        self._classes = classes
        self.asked: list[Object] = []
        self.lists = 0
        self._pods = pods
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    async def ask(self, path: str, question: Object) -> Object:
        self.asked.append(question)
        about = question["spec"]["resourceAttributes"]["resource"]
        return {"status": {"allowed": about != self.may_not}}

    async def pages(self, path: str, **query: object) -> AsyncIterator[Object]:
        of_classes = path == paths.priority_classes()
        if of_classes and self.may_not == "priorityclasses":
            raise Forbidden("list priorityclasses")
        self.lists += not of_classes
        items = self._classes if of_classes else self._pods
        yield {"metadata": {"resourceVersion": "10"}, "items": list(items)}

    async def watch(self, path: str, **query: object) -> AsyncIterator[Event]:
        while path == paths.pods():
            yield await self._events.get()
        await asyncio.Event().wait()  # no class is made or changed

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
    server = Server(pod("a", "n2", cpu="8"), may_not="pods")
    async with following(server, "lab") as (room, _):
        assert room.misfit(NODES["n2"], wanted()) == "", "the scheduler says what it is"
        assert "may not list the pods of all namespaces" in room.unseen()
        assert server.lists == 0
        asked = {each["spec"]["resourceAttributes"]["verb"] for each in server.asked}
        assert asked == {"list", "watch"}


def priority_class(name: str, value: int, **more: Any) -> Object:
    return {"metadata": {"name": name, "resourceVersion": "9"}, "value": value, **more}


async def test_who_may_push_others_off_is_never_refused_for_them() -> None:
    """A class that is not known has no priority that is known: then the scheduler decides."""
    low, high = pod("a", "n2", cpu="8", priority=-10), pod("b", "n3", cpu="8", priority=100)
    classes = [priority_class("spare", -10), priority_class("urgent", 100)]
    async with following(Server(low, high, classes=classes)) as (room, _):
        assert room.misfit(NODES["n2"], wanted()) == ""
        assert room.misfit(NODES["n3"], wanted()) != ""
        assert room.misfit(NODES["n3"], wanted(priorityClassName="urgent")) != ""
        assert room.misfit(NODES["n3"], wanted(priorityClassName="unknown")) == ""
        assert room.misfit(NODES["n2"], wanted(priorityClassName="spare")) != ""


async def test_for_who_pushes_nobody_off_all_others_are_in_the_way() -> None:
    """By the class that is shipped: above those that run there, and it pushes none of them off."""
    (shipped,) = (each for each in SHIPPED if each["metadata"]["name"] == "holdfast-training")
    above = priority_class("above", shipped["value"])
    classes = [{**shipped, "metadata": {**shipped["metadata"], "resourceVersion": "9"}}, above]
    async with following(Server(pod("a", "n2", cpu="7"), classes=classes)) as (room, _):
        assert room.misfit(NODES["n2"], wanted(priorityClassName="above")) == ""
        why = "it has no room: of cpu 1 of 8 are free, and 2 are needed"
        assert room.misfit(NODES["n2"], wanted(priorityClassName="holdfast-training")) == why


@pytest.mark.parametrize(("policy", "fits"), [("PreemptLowerPriority", True), ("Never", False)])
async def test_who_names_no_class_has_the_one_that_is_everybodys(policy: str, fits: bool) -> None:
    """Of two the least, as the API server has it."""
    default = priority_class("usual", 50, preemptionPolicy=policy, globalDefault=True)
    more = priority_class("more", 100, globalDefault=True)
    server = Server(pod("a", "n2", cpu="8", priority=40), classes=[more, default])
    async with following(server) as (room, _):
        assert (room.misfit(NODES["n2"], wanted()) == "") is fits
        assert room.misfit(NODES["n3"], wanted()) == ""


async def test_where_classes_may_not_be_listed_a_start_does_not_wait_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast.driver.adapters.kubernetes.room.KNOWN_WITHIN_S", 2 * DEADLINE_S)
    server = Server(pod("a", "n2", cpu="8"), may_not="priorityclasses")
    async with asyncio.timeout(DEADLINE_S), following(server) as (room, _):
        assert room.misfit(NODES["n2"], wanted()) != ""
        assert room.misfit(NODES["n2"], wanted(priorityClassName="holdfast-training")) == ""
        assert room.unseen() == ""


@pytest.mark.parametrize("cpu", ["9", "80"])
async def test_what_no_node_could_ever_take_needs_no_list(cpu: str) -> None:
    async with following(Server(may_not="pods")) as (room, _):
        assert room.misfit(NODES["n2"], wanted(cpu)) == f"of cpu it has 8, and {cpu} are needed"
