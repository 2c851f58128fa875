"""An executor that was told what to expect is warm for it before its driver orders anything."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from waiting import eventually_async

from holdfast.executor.settings import read
from holdfast.protocol import messages as m
from holdfast.protocol import nodeenv
from holdfast.protocol.nodeenv import BadSettings
from holdfast.protocol.rankenv import base_environment


@pytest.mark.asyncio(loop_scope="module")
async def test_it_is_warm_without_an_order_and_keeps_launcher_and_agent_when_the_order_comes(
    own_node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await own_node.end()
    task = own_node.python(
        "import sys, os\nprint('wave' in sys.modules, os.getppid())\nimport wave"
    )
    expected = m.Task(command=task.command, workdir=task.workdir)
    monkeypatch.setenv(nodeenv.EXPECTED_TASK, msgspec.json.encode(expected).decode())
    own_node.driver.seen = None
    await own_node.start()
    seen = await own_node.driver.eventually(lambda seen: seen.launcher == "warm")
    assert (seen.generation, seen.job) == (0, None)
    ahead = await eventually_async(lambda: len(own_node.below()) == 2 and own_node.below())
    known = len(own_node.driver.history)
    await own_node.want(task, ranks=1)
    await eventually_async(lambda: own_node.output().startswith("True"))
    assert set(ahead) <= set(own_node.below()), "launcher and agent"
    since = [seen.launcher for seen in own_node.driver.history[known:]]
    assert set(since) == {"warm"}


def test_ranks_do_not_inherit_it_and_nonsense_is_refused_in_a_sentence(tmp_path: Path) -> None:
    task = m.Task(command=("x",), workdir="/")
    assert nodeenv.EXPECTED_TASK not in base_environment({nodeenv.EXPECTED_TASK: "{}"}, task)
    (tmp_path / "token").write_text("secret")
    environment = {
        **dict.fromkeys(nodeenv.REQUIRED, "/x"),
        nodeenv.DRIVER_URL: "unix:/x",
        nodeenv.TOKEN_FILE: str(tmp_path / "token"),
    }
    assert read(environment).expected is None
    with pytest.raises(BadSettings, match=r"HOLDFAST_EXPECTED_TASK: .*command.*or not at all"):
        read({**environment, nodeenv.EXPECTED_TASK: "{}"})
    with pytest.raises(BadSettings, match=r"HOLDFAST_LAUNCHER: 'x:4' is no PID:DESCRIPTOR"):
        read({**environment, nodeenv.LAUNCHER: "x:4"})
