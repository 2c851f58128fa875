"""Any process with the nodes' token may give any name: one never told anything leaves no trace."""

from typing import Any

from waiting import eventually_async

from holdfast.protocol.messages import Desired, Hello
from holdfast.protocol.version import PROTOCOL_VERSION


async def test_only_names_that_were_told_something_outlive_their_connection(edge: Any) -> None:
    edge.sessions.instruct(Desired(node="n0", generation=1, term=1, epoch=1, job="j"))
    for name in ("n0", "stranger-1", "stranger-2"):
        hello = Hello(protocol=PROTOCOL_VERSION, process="executor", node=name, incarnation="i")
        async with edge.greeted(hello):
            assert edge.sessions.hello(name) == hello
    await edge.seen(6)
    await eventually_async(lambda: set(edge.sessions._executors) == {"n0"})
