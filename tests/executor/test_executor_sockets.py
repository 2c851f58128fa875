"""The folders of multiprocessing go with the ranks that made them, however those end."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import eventually_async

from holdfast.executor.adapters.sockets import Sockets

ASKS = """
import multiprocessing, os, sys, time
from multiprocessing.connection import Listener

def serve(said):
    listener = Listener(family="AF_UNIX")
    os.write(1, f"listens {listener.address}\\n".encode())  # one call: whole lines of all
    time.sleep(1000)

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        multiprocessing.get_context(method).Process(target=serve, args=(1,), daemon=True).start()
    serve(0)
"""


@pytest.fixture
def own() -> Iterator[Path]:
    """A user's own TMPDIR, with a path so short that a socket's below it fits its 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="own-") as folder:
        yield Path(folder)


def listening(node: Any, ranks: int) -> list[Path]:
    """The sockets of the ranks and their two workers each."""
    lines = [line for rank in range(ranks) for line in node.output(rank).splitlines()]
    paths = [Path(line.split()[1]) for line in lines if line.startswith("listens")]
    return paths if len(paths) == 3 * ranks else []


@pytest.mark.asyncio(loop_scope="module")
async def test_killed_ranks_and_workers_leave_no_folder(own_node: Any, own: Path) -> None:
    node = own_node
    task = node.python(ASKS, env={"TMPDIR": str(own)})
    await node.launch(task, ranks=2)
    pids = await node.running(2)
    await eventually_async(lambda: listening(node, 2))
    assert {path.parent.parent for path in listening(node, 2)} == {own}, "the user's own place"
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    await node.exited(2)
    await node.want(None, job=None)
    await eventually_async(lambda: list(own.iterdir()) == [])


@pytest.mark.asyncio(loop_scope="module")
async def test_what_a_killed_executor_left_the_next_attempt_removes(
    own_node: Any, own: Path
) -> None:
    node = own_node
    await node.launch(node.python(ASKS, env={"TMPDIR": str(own)}), ranks=1)
    await node.running(1)
    await eventually_async(lambda: listening(node, 1))
    os.kill(node.executor, signal.SIGKILL)
    await node.end()
    (left,) = own.iterdir()
    await node.start()
    await node.launch(node.python(ASKS, env={"TMPDIR": str(own)}), ranks=1)
    await node.running(1)
    await eventually_async(lambda: listening(node, 1))
    assert not left.exists()
    await node.want(None, job=None)
    await eventually_async(lambda: list(own.iterdir()) == [])


def test_a_rank_has_them_where_its_temporary_files_are(tmp_path: Path) -> None:
    sockets, work = Sockets(), tmp_path / "work"
    (work / "scratch").mkdir(parents=True)
    for env, place in (
        ({"TMPDIR": "scratch"}, work / "scratch"),
        ({"TMPDIR": str(tmp_path / "nowhere"), "TMP": str(work)}, work),
        ({}, Path(tempfile.gettempdir())),
    ):
        folder = Path(sockets.make(env, str(work)))
        assert folder.parent == place
        assert folder.stat().st_mode & 0o777 == 0o700
        assert len(folder.name) <= len("pymp-12345678")
        sockets.drop()
        assert not folder.exists()
    sockets.drop()


def test_the_one_before_is_removed_and_one_that_is_gone_is_no_fault(tmp_path: Path) -> None:
    env, sockets = {"TMPDIR": str(tmp_path)}, Sockets()
    first = Path(sockets.make(env, "/"))
    second = Path(sockets.make(env, "/"))
    assert (first.exists(), second.exists()) == (False, True)
    shutil.rmtree(second)
    third = Path(sockets.make(env, "/"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(third / "listener-12345678"))
    sockets.drop()
    assert list(tmp_path.iterdir()) == []


def test_a_neighbours_stays_while_it_lives_and_not_longer(tmp_path: Path) -> None:
    env, mine = {"TMPDIR": str(tmp_path)}, Sockets()
    (tmp_path / "hold-my-own-data").mkdir()
    lives = "import sys; from holdfast.executor.adapters.sockets import Sockets; s = Sockets()"
    tells = f"print(s.make({env!r}, '/'), flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", f"{lives}; {tells}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as neighbour:
        assert neighbour.stdout is not None
        folder = Path(neighbour.stdout.readline().strip())
        mine.make(env, "/")
        assert folder.exists()
        neighbour.kill()
        neighbour.wait()
        mine.drop()
    assert [path.name for path in tmp_path.iterdir()] == ["hold-my-own-data"], (
        "what is not ours stays"
    )


def test_where_none_can_be_made_python_makes_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "nowhere"))
    assert Sockets().make({}, "/") == ""
