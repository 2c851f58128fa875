"""Nothing stays below an executor, also what one look at /proc cannot show."""

import subprocess
import sys

import pytest

from holdfast.executor.adapters import proctree
from holdfast.executor.adapters.children import Children
from holdfast.executor.adapters.sweep import Sweep


async def test_what_changes_its_parent_during_a_look_is_ended_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    looks = 0

    def below(root: int, **_: object) -> list[int]:
        """As if the helper had been read before its parent, which then ended, in the first one."""
        nonlocal looks
        looks += 1
        return [] if looks == 1 or helper.poll() is not None else [helper.pid]

    monkeypatch.setattr(proctree, "below", below)
    try:
        await Sweep(Children(), keep=lambda: (), busy=lambda: False).clear(0.0, ())
        assert helper.poll() is not None
    finally:
        helper.kill()
        helper.wait()
