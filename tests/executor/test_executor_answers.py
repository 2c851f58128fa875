"""What the driver may ask of an executor, and how it greets."""

from pathlib import Path
from typing import Any

import pytest
from waiting import eventually_async

from holdfast.daemon.samplers.followed import QUIET_LOOKS
from holdfast.daemon.samplers.outputs import Outputs
from holdfast.executor.adapters.outputs import KEPT_STARTS
from holdfast.protocol import messages as m
from holdfast.protocol.paths import NodePaths

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def ask(node: Any, question: Any) -> Any:
    await node.driver.send(question)
    return await eventually_async(lambda: node.driver.answers.get(question.id))


async def test_it_greets_with_what_the_node_has_and_its_token(node: Any) -> None:
    path, header = node.driver.paths[0]
    assert path == "/v1alpha1/nodes/node-1/executor"
    assert header == "Bearer token-of-this-test"
    hello = node.driver.hellos[0]
    assert (hello.process, hello.node, hello.address) == ("executor", "node-1", "127.0.0.1")
    assert hello.hardware.cpus >= 1
    assert hello.hardware.memory_bytes > 1 << 28


async def test_a_log_is_read_from_either_end_and_says_where_to_go_on(node: Any) -> None:
    await node.launch(node.python("print('first'); print('second')"), ranks=1)
    await node.exited(1)
    where: dict[str, Any] = {
        "job": "job",
        "attempt": node.epoch,
        "rank": 0,
        "stream": "stdout",
    }
    whole = await ask(node, m.AskLog(id="whole", **where))
    assert (whole.data, whole.end) == (b"first\nsecond\n", 13)
    tail = await ask(node, m.AskLog(id="tail", offset=-7, **where))
    assert (tail.data, tail.end) == (b"second\n", 13)
    part = await ask(node, m.AskLog(id="part", max_bytes=5, **where))
    assert (part.data, part.end) == (b"first", 5)
    none = await ask(node, m.AskLog(id="none", **where | {"rank": 7}))
    assert none.missing


async def test_the_line_that_kills_is_read_though_nobody_looked_before_the_rank_was_gone(
    node: Any,
) -> None:
    text = "import sys; sys.stdout.write('CUDA error: out of luck'); sys.exit(3)"
    epochs = []
    for _ in range(KEPT_STARTS):
        await node.launch(node.python(text, log_rules=("out of luck",)), ranks=1)
        await node.exited(1)
        epochs.append(node.epoch)
    paths = NodePaths(scratch=node.folder / "scratch", memory=node.folder / "memory")
    looked = Outputs(paths.outputs, paths.outputs_read)
    hits = [hit for _ in range(QUIET_LOOKS + 1) for hit in looked.hits(0.0)]
    assert [(hit.epoch, hit.rule) for hit in hits] == [(epoch, "out of luck") for epoch in epochs]
    await node.launch(node.python("print()"), ranks=1)
    await node.exited(1)
    looked.hits(0.1)
    assert len(list(paths.outputs.iterdir())) == KEPT_STARTS + 1, "and the newest"


async def test_stacks_name_the_line_where_a_rank_stands_or_why_there_is_none(node: Any) -> None:
    text = "import time\n\n\ndef waiting_here():\n    time.sleep(1000)\n\n\nwaiting_here()"
    await node.launch(node.python(text), ranks=1)
    (pid,) = await node.running(1)
    await eventually_async(lambda: b"rank-0" in Path(f"/proc/{pid}/comm").read_bytes())
    taken = await ask(node, m.AskStacks(id="s1", job="job", ranks=(0, 5)))
    assert "waiting_here" in taken.stacks[0] or taken.stacks[0].startswith("no stack: ")
    assert taken.stacks[5] == "no stack: the rank does not run here"


WAITS_FOR_A_CHILD = """
import multiprocessing, os, subprocess

def child_that_reads():
    os.read(os.pipe()[0], 1)

def waiting_for_it():
    child = multiprocessing.Process(target=child_that_reads)
    child.start()
    open("child", "w").write(str(child.pid))
    child.join()

subprocess.Popen(["sleep", "1000"])
waiting_for_it()
"""


async def test_stacks_of_a_ranks_child_processes_come_with_its_own_whatever_else_it_started(
    node: Any,
) -> None:
    await node.launch(node.python(WAITS_FOR_A_CHILD), ranks=1)
    await node.running(1)
    said = await eventually_async(lambda: list(node.folder.rglob("child")))
    child = await eventually_async(lambda: said[0].read_text())
    where = Path(f"/proc/{child}/syscall")
    await eventually_async(lambda: where.read_text().startswith("0 "), "it reads")
    taken = await ask(node, m.AskStacks(id="s1", job="job", ranks=(0,)))
    own, _, other = taken.stacks[0].partition(f"Process {child}:")
    if not own.startswith("no stack: "):
        assert "waiting_for_it (" in own
        assert "child_that_reads (" in other
        assert "waiting_for_it (" not in other, "what the child was forked in is the rank's"


async def test_nonsense_from_the_driver_is_answered_and_does_no_harm(node: Any) -> None:
    assert node.driver.connection is not None
    await node.driver.connection.send(b"\xc1 not msgpack")
    (refused,) = await eventually_async(lambda: node.driver.refusals)
    assert refused.what == "frame"
    await node.launch(node.python("print('fine')"), ranks=1)
    assert [status.exit_code for status in await node.exited(1)] == [0]
