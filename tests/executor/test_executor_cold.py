"""A cold import that gets on is waited for; one that stands still is not."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from waiting import eventually_async

from holdfast.executor.adapters import launcher as launchers
from holdfast.executor.adapters.children import Children
from holdfast.executor.adapters.launcher import Launcher
from holdfast.kit.effort import Effort

SLOW_DISK = """
import importlib.abc, os, sys
class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "wave":
            sys.meta_path.remove(self)
            open(os.environ["DISK"]).close()
sys.meta_path.insert(0, Slow())
"""
"""`import wave` takes until somebody opens the other end of a FIFO."""


class Disk:
    """A launcher whose import waits for it, and how much that seems to get on meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.fifo = folder / "disk"
        os.mkfifo(self.fifo)
        (folder / "sitecustomize.py").write_text(SLOW_DISK)
        self.states: list[str] = []
        self.looks = 0
        self.bytes_a_look = 0
        self.children = Children()
        self.launcher = Launcher(self.children, self.states.append)
        self.env = os.environ | {"PYTHONPATH": str(folder), "DISK": str(self.fifo)}

    def effort(self, _pid: int) -> Effort:
        self.looks += 1
        return Effort(0.0, self.looks * self.bytes_a_look)

    def turns(self) -> None:
        """The import ends."""
        os.close(os.open(self.fifo, os.O_WRONLY))


@pytest_asyncio.fixture
async def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Disk]:
    made = Disk(tmp_path)
    monkeypatch.setattr(launchers, "effort", made.effort)
    monkeypatch.setattr(launchers, "LOOK_S", 0.01)
    monkeypatch.setattr(launchers, "STILL_LIMIT_S", 0.0)
    made.children.start()
    made.launcher.prepare(made.env, str(tmp_path), ["wave"])
    pid = made.launcher.pid
    yield made
    made.launcher.close("the test ends")
    await eventually_async(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.asyncio
async def test_an_import_that_reads_is_waited_for(disk: Disk) -> None:
    disk.bytes_a_look = 1 << 30
    warm = asyncio.ensure_future(disk.launcher.warm())
    while disk.looks < 20:
        await asyncio.sleep(0)
    assert disk.states == ["none: it is being replaced", "warming"]
    await asyncio.to_thread(disk.turns)
    assert await warm
    assert disk.states[-1] == "warm"


@pytest.mark.asyncio
async def test_one_that_stands_still_is_ended_and_that_is_said(disk: Disk) -> None:
    assert not await disk.launcher.warm()
    assert disk.states[-1] == "none: an import of it stood still for 0 s"
    assert disk.launcher.pid is None


@pytest.mark.asyncio
async def test_so_is_one_that_never_comes_to_an_end(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launchers, "WARM_LIMIT_S", 0.1)
    disk.bytes_a_look = 1 << 30
    assert not await disk.launcher.warm()
    assert disk.states[-1] == "none: it was not warm after 0 s"
