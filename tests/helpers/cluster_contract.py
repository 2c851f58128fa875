"""What every `ports.Cluster` promises, as trials: each is given a cluster and its two nodes.

Used by the tests of each adapter; clusters that are broken on purpose have to fail one of them.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest
from waiting import DEADLINE_S

from holdfast.driver.ports import Cluster, Ended, Ending, Fact, PermanentError, TemporaryError

Names = tuple[str, str]


async def first_facts(cluster: Cluster, count: int) -> dict[str, Fact]:
    """Facts by node until there are `count` nodes, all present."""
    facts: dict[str, Fact] = {}
    async with asyncio.timeout(DEADLINE_S), aclosing(cluster.facts()) as told:
        async for fact in told:
            assert isinstance(fact, Fact)
            facts[fact.node] = fact
            if len(facts) == count and all(fact.present for fact in facts.values()):
                break
    return facts


async def every_node_is_told_to_each_who_asks(cluster: Cluster, names: Names) -> None:
    assert sorted(await first_facts(cluster, 2)) == sorted(names)
    assert sorted(await first_facts(cluster, 2)) == sorted(names)


async def a_node_is_held_by_one_job(cluster: Cluster, names: Names) -> None:
    await cluster.allocate("one", names[0])
    await cluster.allocate("one", names[0])
    with pytest.raises(TemporaryError, match="one"):
        await cluster.allocate("other", names[0])
    await cluster.release(names[0])
    await cluster.release(names[0])
    await cluster.allocate("other", names[0])
    await cluster.release(names[0])


async def a_node_that_is_given_up_is_held_until_it_is_released(
    cluster: Cluster, names: Names
) -> None:
    cluster.give_up(names[0])
    await cluster.release(names[0])
    await cluster.allocate("one", names[0])
    cluster.give_up(names[0])
    with pytest.raises(TemporaryError, match="one"):
        await cluster.allocate("other", names[0])
    await cluster.release(names[0])
    await cluster.allocate("other", names[0])
    await cluster.release(names[0])


async def a_distrusted_node_is_said_and_not_given(cluster: Cluster, names: Names) -> None:
    await cluster.distrust(names[1], incident=3, reason="its link is slow")
    fact = (await first_facts(cluster, 2))[names[1]]
    assert fact.distrusted
    assert fact.why == "its link is slow"
    with pytest.raises(PermanentError, match="its link is slow"):
        await cluster.allocate("one", names[1])
    await cluster.trust(names[1])
    await cluster.trust(names[1])
    assert not (await first_facts(cluster, 2))[names[1]].distrusted
    await cluster.allocate("one", names[1])
    await cluster.release(names[1])


async def a_distrusted_node_is_given_for_a_trial_and_for_nothing_else(
    cluster: Cluster, names: Names, namespace: str = ""
) -> None:
    """`namespace`: of its jobs, where jobs have one."""
    metadata = {"name": "one", "namespace": namespace, "uid": "1", "labels": None}
    spec = {"pod": {"image": "holdfast-executor:1", "shm": None}}
    whole = json.dumps({"metadata": metadata, "spec": spec}).encode()
    await cluster.distrust(names[1], incident=3, reason="its link is slow")
    await first_facts(cluster, 2)
    for _ in range(2):
        await cluster.requalify(names[1], number=7, job="one", spec=whole)
    with pytest.raises(PermanentError, match="its link is slow"):
        await cluster.allocate("one", names[1])
    await cluster.release(names[1])
    await cluster.trust(names[1])
    await cluster.allocate("other", names[1])
    await cluster.release(names[1])


async def a_change_is_told_to_who_listens(cluster: Cluster, names: Names) -> None:
    heard: asyncio.Queue[Fact | Ending | Ended] = asyncio.Queue()

    async def listen() -> None:
        async with aclosing(cluster.facts()) as told:
            async for fact in told:
                heard.put_nowait(fact)

    async with asyncio.timeout(DEADLINE_S):
        listening = asyncio.create_task(listen())
        await heard.get()
        await heard.get()
        await cluster.distrust(names[0], incident=1, reason="no reason")
        while not getattr(await heard.get(), "distrusted", False):
            pass
        listening.cancel()
        await asyncio.wait([listening])
    await cluster.trust(names[0])


async def an_unknown_node_is_refused_for_good(cluster: Cluster, names: Names) -> None:
    with pytest.raises(PermanentError, match="node-9"):
        await cluster.allocate("one", "node-9")


of_trials = a_distrusted_node_is_given_for_a_trial_and_for_nothing_else
"""It needs to know where jobs are, so it is asked for by itself."""

PROMISES: list[Callable[[Cluster, Names], Awaitable[None]]] = [
    every_node_is_told_to_each_who_asks,
    a_node_is_held_by_one_job,
    a_node_that_is_given_up_is_held_until_it_is_released,
    a_distrusted_node_is_said_and_not_given,
    a_change_is_told_to_who_listens,
    an_unknown_node_is_refused_for_good,
]
