"""An executor whose host is gone ends as one that is told to."""

import asyncio
import os
from pathlib import Path

import pytest
from waiting import DEADLINE_S

from holdfast.executor import process
from holdfast.executor.settings import Settings, read

ROUNDS = 10
"""Of a last sweep, and turns of the loop: in each the pipe is readable once more."""


class Ending:
    """Runs until it is cancelled, and then takes some rounds to end."""

    rounds = 0

    def __init__(self, *_: object) -> None:
        Ending.rounds = 0

    def leave(self) -> None:
        """Not here."""

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(ROUNDS):
                await asyncio.sleep(0)
                Ending.rounds += 1


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "token").write_text("secret\n")
    return read(
        {
            "HOLDFAST_NODE": "node-1",
            "HOLDFAST_DRIVER_URL": "http://127.0.0.1:1",
            "HOLDFAST_NODE_TOKEN_FILE": str(tmp_path / "token"),
            "HOLDFAST_SCRATCH": str(tmp_path),
            "HOLDFAST_MEMORY": str(tmp_path),
        }
    )


async def test_its_last_sweep_is_not_cut_short_by_the_pipe_that_stays_readable(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, hosts = os.pipe()
    monkeypatch.setattr(process, "lifeline", lambda: ours)
    monkeypatch.setattr(process, "Executor", Ending)
    try:
        serving = asyncio.create_task(process._serve(settings))
        await asyncio.sleep(0)
        assert not serving.done()
        os.close(hosts)
        await asyncio.wait_for(serving, DEADLINE_S)
        assert Ending.rounds == ROUNDS
    finally:
        asyncio.get_running_loop().remove_reader(ours)
        os.close(ours)
