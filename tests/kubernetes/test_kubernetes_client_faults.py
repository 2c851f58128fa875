"""Whatever a server does, in whatever order: in the end the copy is the truth, and what was told on
the way never contradicted itself.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from api_clients import client_of
from fake_apiserver import PATH, FakeApiServer, OnCall, OnWatch, serving
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from told import told_by
from waiting import eventually_async

from holdfast.driver.adapters.kubernetes.reflector import Reflector

NAMES = st.sampled_from("abcdef")
Step = tuple[str, object]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES),
        st.tuples(st.just("put"), NAMES),
        st.tuples(st.just("delete"), NAMES),
        st.tuples(st.just("turns"), st.integers(1, 40)),
        st.tuples(st.just("call"), st.sampled_from(OnCall)),
        st.tuples(st.just("watch"), st.sampled_from(OnWatch)),
        st.tuples(st.sampled_from(["compact", "cut", "rotate"]), st.none()),
    ),
    max_size=40,
)


async def do(server: FakeApiServer, folder: Path, what: str, with_: object) -> None:
    match what, with_:
        case "put", str(name):
            server.put(name)
        case "delete", str(name):
            server.delete(name)
        case "turns", int(turns):
            for _ in range(turns):
                await asyncio.sleep(0)  # as far as server and reflector come in so many turns
        case "call", OnCall() as fault:
            server.on_calls.append(fault)
        case "watch", OnWatch() as fault:
            server.on_watches.append(fault)
        case "rotate", _:
            server.token += "+"
            (folder / "token").write_text(server.token)
        case "compact", _:
            server.compact()
        case _:
            server.cut()


async def play(steps: list[Step], folder: Path, seed: int) -> None:
    async with (
        serving(FakeApiServer(seed=seed)) as server,
        client_of(server, folder, answer_within_s=0.1) as client,
    ):
        reflector = Reflector(client, PATH, page=2, quiet_s=0.2, wait_cap_s=0.005)
        async with told_by(reflector) as told:
            for what, with_ in steps:
                await do(server, folder, what, with_)
            server.on_calls.clear()
            there = {f"default/{name}": seen(each) for name, each in server.objects.items()}
            await eventually_async(lambda: reflector.store == there, f"{there}")
            assert told.live == there
            uids = {each["metadata"]["uid"] for each in there.values()}
            assert told.begun - told.ended == uids


def seen(there: dict[str, Any]) -> dict[str, Any]:
    """As the reflector keeps it."""
    metadata = {key: each for key, each in there["metadata"].items() if key != "managedFields"}
    return {**there, "metadata": metadata}


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, seed=st.integers(0, 1_000))
def test_whatever_the_server_does_the_copy_ends_as_the_truth(steps: list[Step], seed: int) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(play(steps, Path(folder), seed))
