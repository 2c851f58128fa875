"""Nothing stays below an executor, also what one look at /proc cannot show."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from dying import die_with_parent
from waiting import DEADLINE_S

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


def cleared(case: str) -> list[int | None]:
    """How many were left by a Clear, and code and signal of the child where somebody waits."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("clearing.py")), case],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=DEADLINE_S,
        check=True,
        preexec_fn=die_with_parent,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("case", "code", "number"),
    [
        pytest.param("awaited", None, 9, id="somebody waits for it"),
        pytest.param("unwanted", None, None, id="nobody waits for it any more"),
        pytest.param("stays", None, 9, id="the process between never ends"),
        pytest.param("leads", 3, None, id="it is a leader that has grace"),
    ],
)
def test_a_forked_child_is_ended_that_is_not_below_us_yet(
    case: str, code: int | None, number: int | None
) -> None:
    assert cleared(case) == [0, code, number]
