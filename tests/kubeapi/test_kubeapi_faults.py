"""Whatever a server does, in whatever order: in the end the copy is the truth, and what was told on
the way never contradicted itself.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from api_clients import client_of
from fake_apiserver import PATH, FakeApiServer, OnCall, OnWatch, serving
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from told import told_by
from waiting import eventually_async

from holdfast.kubeapi.mirror import Mirror
from holdfast.kubeapi.reflector import Reflector

NAMES = st.sampled_from("abcd")
ROUNDS = st.lists(
    st.builds(
        dict,
        watches=st.lists(st.sampled_from(OnWatch), max_size=2),
        calls=st.lists(st.sampled_from(OnCall), max_size=2),
        burst=st.lists(st.tuples(st.sampled_from(["put", "put", "delete"]), NAMES), max_size=8),
        then=st.sampled_from(["nothing", "nothing", "compact", "cut", "rotate"]),
        turns=st.integers(0, 100),
    ),
    max_size=6,
)
Round = dict[str, Any]


async def live_through(server: FakeApiServer, folder: Path, this: Round) -> None:
    """A burst of changes that meets these faults, and as much of the answer to it as `turns` of
    the event loop, which server and reflector share, allow.
    """
    server.on_watches.extend(this["watches"])
    server.on_calls.extend(this["calls"])
    for what, name in this["burst"]:
        getattr(server, what)(name)
    if this["then"] == "compact":
        server.compact()
    if this["then"] == "cut":
        server.cut()
    if this["then"] == "rotate":
        server.token += "+"
        (folder / "token").write_text(server.token)
    for _ in range(this["turns"]):
        await asyncio.sleep(0)


async def play(rounds: list[Round], folder: Path, seed: int) -> None:
    async with (
        serving(FakeApiServer(seed=seed)) as server,
        client_of(server, folder, answer_within_s=0.1) as client,
    ):
        server.put("a")
        reflector = Reflector(client, PATH, page=2, quiet_s=0.3, wait_cap_s=0.005)
        with promises_held_against(server) as broken:
            async with told_by(reflector) as told:
                await eventually_async(lambda: reflector.watches, "it watches")
                for each in rounds:
                    await live_through(server, folder, each)
                server.on_calls.clear()
                await eventually_async(
                    lambda: told.over() or reflector.promised == server.version, "it is there"
                )
                there = seen(server.objects)
                assert told.live == reflector.store == there
                uids = {each["metadata"]["uid"] for each in there.values()}
                assert told.begun - told.ended == uids
        assert not broken, "promised, and missing"


@contextmanager
def promises_held_against(server: FakeApiServer) -> Iterator[list[int]]:
    """Each version up to which a copy claimed to miss nothing, and did; a later list hides it."""
    broken: list[int] = []
    promise = Mirror._promise

    def promise_and_compare(mirror: Mirror, version: int) -> None:
        promise(mirror, version)
        if mirror.store != seen(server.moments[version]):
            broken.append(version)

    with patch.object(Mirror, "_promise", promise_and_compare):
        yield broken


def seen(objects: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """As the reflector keeps them."""
    kept = {}
    for name, each in objects.items():
        metadata = {key: word for key, word in each["metadata"].items() if key != "managedFields"}
        kept[f"default/{name}"] = {**each, "metadata": metadata}
    return kept


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(rounds=ROUNDS, seed=st.integers(0, 1_000))
def test_whatever_a_server_does_the_copy_ends_as_the_truth(rounds: list[Round], seed: int) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(play(rounds, Path(folder), seed))
