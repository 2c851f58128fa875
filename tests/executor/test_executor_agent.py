"""What the executor tells an agent that takes the place of one that died."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import repeat
from pathlib import Path

import pytest
from msgspec.structs import replace
from waiting import eventually_async

from holdfast.checkpoint import agent_protocol
from holdfast.checkpoint.agent_protocol import AgentOrder
from holdfast.executor.adapters.children import Exit
from holdfast.executor.agent import Agent
from holdfast.executor.core import events as ev
from holdfast.protocol.paths import NodePaths

STEP = 10

RECORDER = """
import os, sys
with open(sys.argv[1].format(pid=os.getpid()), "ab", buffering=0) as heard:
    for line in sys.stdin.buffer:
        heard.write(line)
"""


class Programs:
    """Starts the agents, or `instead` of them another program, as `Children` does."""

    def __init__(self, instead: Sequence[str] = ()) -> None:
        self._instead = instead
        self.started: list[subprocess.Popen[bytes]] = []

    def spawn(
        self,
        command: Sequence[str],
        on_exit: Callable[[int, Exit], None],
        *,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
    ) -> int:
        program = subprocess.Popen(self._instead or command, env=env, stdin=stdin, stdout=stdout)
        self.started.append(program)
        fd = os.pidfd_open(program.pid)
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.remove_reader(fd)
            os.close(fd)
            on_exit(program.pid, Exit(None, -program.wait()))

        loop.add_reader(fd, ended)
        return program.pid


class Node:
    """An executor's agents, and what it heard of them."""

    def __init__(self, folder: Path, programs: Programs) -> None:
        self.folder = folder
        self.paths = NodePaths(scratch=folder / "scratch", memory=folder / "memory")
        self.programs = programs
        self.told: list[ev.AnyEvent] = []
        self.agent = Agent(programs, self.paths, self.told.append)  # type: ignore[arg-type]

    def order(self, number: int, *ranks: int, epoch: int = 1, forget: str = "") -> AgentOrder:
        """Of the executor's core: without a task there is no store either."""
        store = {"store_url": f"file://{self.folder}/store", "store_interval_steps": STEP}
        order = AgentOrder(id=number, job="job", epoch=epoch, ranks=ranks, world_size=1)
        return replace(order, forget_job=forget) if forget else replace(order, **store)  # type: ignore[arg-type]

    def reported(self, number: int) -> bool:
        """An agent has answered this order."""
        return any(
            isinstance(each, ev.AgentReported) and each.report.id == number for each in self.told
        )

    def failing(self) -> bool:
        """The agent has met a store that cannot be written."""
        return any(
            isinstance(each, ev.AgentReported) and each.report.store_error for each in self.told
        )

    async def kill(self) -> None:
        """SIGKILL, and wait until the executor knows. What it was told before is dropped."""
        assert self.agent.pid is not None
        seen = len(self.told)
        os.kill(self.agent.pid, signal.SIGKILL)
        await eventually_async(
            lambda: any(isinstance(each, ev.AgentAbsent) for each in self.told[seen:])
        )
        while not isinstance(self.told.pop(0), ev.AgentAbsent):
            continue

    async def heard(self, count: int) -> list[int]:
        """The ids of the orders that the newest agent has read, once there are so many."""
        file = self.folder / f"{self.programs.started[-1].pid}.heard"
        await eventually_async(
            lambda: file.exists() and file.read_bytes().count(b"\n") >= count, str(file)
        )
        return [agent_protocol.order(text).id for text in file.read_bytes().splitlines()]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """No agent is started again before the next order comes."""
    monkeypatch.setattr("holdfast.executor.agent.full_jitter", lambda **_: repeat(3600.0))


@pytest.fixture
async def made(tmp_path: Path) -> AsyncIterator[Callable[..., Node]]:
    """Makes nodes whose agents have all ended after the test."""
    nodes: list[Node] = []

    def make(*instead: str) -> Node:
        nodes.append(Node(tmp_path, Programs(instead)))
        return nodes[-1]

    yield make
    for node in nodes:
        node.agent.close()
        await eventually_async(
            lambda: all(each.returncode is not None for each in node.programs.started)  # noqa: B023
        )


@pytest.fixture
def node(tmp_path: Path, made: Callable[..., Node]) -> Node:
    """Its agents write down what they are told."""
    return made(sys.executable, "-c", RECORDER, str(tmp_path / "{pid}.heard"))


async def test_an_agent_that_takes_over_hears_of_ranks_before_it_is_to_forget_their_job(
    node: Node,
) -> None:
    node.agent.order(node.order(1, 0))
    node.agent.order(node.order(2, forget="job"))
    assert await node.heard(2) == [1, 2]
    for _ in range(2):
        await node.kill()
        await eventually_async(lambda: node.agent.pid is not None, "another")
        assert await node.heard(2) == [1, 2]


async def test_so_it_does_where_none_was_there_when_the_job_was_to_be_forgotten(
    slow: None, node: Node
) -> None:
    node.agent.order(node.order(1, 0))
    await node.kill()
    node.agent.order(node.order(2))
    assert await node.heard(2) == [1, 2]
    await node.kill()
    node.agent.order(node.order(3, epoch=2, forget="job"))
    assert await node.heard(2) == [1, 3]


@pytest.mark.parametrize("ranks", [(), (0,)], ids=["no ranks", "ranks"])
async def test_of_an_epoch_that_is_over_no_agent_hears_again(
    slow: None, node: Node, ranks: tuple[int, ...]
) -> None:
    node.agent.order(node.order(1, 0))
    node.agent.order(node.order(2, *ranks, epoch=2))
    await node.kill()
    node.agent.order(node.order(3, *ranks, epoch=2))
    assert await node.heard(1) == [3]


@pytest.mark.torch
async def test_what_was_due_is_in_the_store_though_the_agent_died_after_the_job_had_ended(
    made: Callable[..., Node], tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    checkpointer = pytest.importorskip("holdfast.checkpoint.checkpointer")
    settings = pytest.importorskip("holdfast.checkpoint.settings")
    node = made()
    slots = node.paths.slots("job", 0)
    rank = checkpointer.Checkpointer(settings.Settings(job="job", epoch=1, slots=slots))
    assert rank.save(STEP, {"w": torch.ones(100)})
    (tmp_path / "store").write_text("in the way: nothing can be written")
    node.agent.order(node.order(1, 0))
    await eventually_async(node.failing, "the store cannot be written")
    node.agent.order(node.order(2, forget="job"))
    await node.kill()
    (tmp_path / "store").unlink()
    await eventually_async(lambda: node.reported(2), "the job is forgotten")
    written = [path.parent.name for path in tmp_path.glob("store/*/manifest.json")]
    assert written == [f"step-{STEP:08}-epoch-1"]
    assert not slots.exists(), "and then it is forgotten"
    await node.kill()
    await eventually_async(lambda: node.reported(2), "one that comes later still agrees")
    assert not slots.exists()
