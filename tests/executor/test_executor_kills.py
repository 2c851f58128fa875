"""Whoever dies, by whatever signal: it is told at once, and nothing is left over."""

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from waiting import DEADLINE_S, eventually_async

from holdfast.protocol import messages as m

pytestmark = pytest.mark.asyncio(loop_scope="module")

SLEEP = """
import time
print("up", flush=True)
time.sleep(1000)
"""

DAEMONISES = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("daemon", os.getpid(), flush=True)
        time.sleep(1000)
    os._exit(0)
os.wait()
time.sleep(1000)
"""

DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
while True:
    time.sleep(1)
"""

POLITE = """
import signal, sys, time
def end(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("up", flush=True)
while True:
    time.sleep(1)
"""


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def launchers(node: Any, rank: int) -> list[int]:
    """The launcher, and the process between it and the ranks while that is ending."""
    return [pid for pid in node.below() if pid != rank and b"launcher.main" in command_of(pid)]


def command_of(pid: int) -> bytes:
    """Empty where it has just ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def only(pids: list[int]) -> int | None:
    return pids[0] if len(pids) == 1 else None


async def quiet(node: Any) -> m.Observed:
    epoch = node.epoch
    return await node.driver.eventually(lambda o: o.epoch == epoch and o.quiet)


async def test_a_killed_rank_is_told_with_its_signal_and_the_others_run_on(node: Any) -> None:
    await node.launch(node.python(SLEEP), ranks=4)
    first, *others = await node.running(4)
    took_s = []
    for rank, pid in enumerate(others, start=1):
        killed_at = time.monotonic()
        os.kill(pid, signal.SIGSEGV)
        seen = await node.driver.eventually(lambda o, rank=rank: o.ranks[rank].state == "exited")
        took_s.append(node.driver.seen_at - killed_at)
        assert (seen.ranks[rank].signal, seen.ranks[rank].exit_code) == (signal.SIGSEGV, None)
        assert seen.ranks[0].state == "running"
    assert min(took_s) < 1.0, "at once, but where a busy machine stood still"
    assert alive(first)


async def test_a_new_epoch_ends_what_ran_also_a_daemon_that_left_its_session(node: Any) -> None:
    await node.launch(node.python(DAEMONISES), ranks=1)
    (rank,) = await node.running(1)
    await eventually_async(lambda: "daemon" in node.output())
    daemon = int(node.output().split()[1])
    assert alive(daemon)
    await node.want(node.python(DAEMONISES))
    await quiet(node)
    assert not alive(rank)
    assert not alive(daemon)


@pytest.mark.parametrize("how", [signal.SIGSTOP, None], ids=["stopped", "deaf"])
async def test_a_rank_that_does_not_hear_is_ended_all_the_same(
    node: Any, how: signal.Signals | None
) -> None:
    task = node.python(DEAF, grace_s=0.3)
    await node.launch(task, ranks=1)
    (rank,) = await node.running(1)
    await eventually_async(lambda: "deaf" in node.output())
    if how is not None:
        os.kill(rank, how)
    asked_at = time.monotonic()
    await node.want(task, stop="grace")
    await quiet(node)
    assert not alive(rank)
    assert time.monotonic() - asked_at >= 0.3


HELPED = """
import subprocess, sys, time
helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
print(helper.pid, flush=True)
time.sleep(1000)
"""


async def test_the_grace_is_over_with_the_last_rank_though_its_helpers_were_told_nothing(
    node: Any,
) -> None:
    task = node.python(HELPED, grace_s=600)
    await node.launch(task, ranks=2)
    await node.running(2)
    await eventually_async(lambda: all(node.output(rank) for rank in (0, 1)))
    helpers = [int(node.output(rank)) for rank in (0, 1)]
    await node.want(task, stop="grace")
    await quiet(node)
    assert not any(alive(helper) for helper in helpers)


ENDED_FIRST = """
import ctypes, subprocess, sys, threading, time
helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
threading.Thread(target=time.sleep, args=[1000]).start()
print(helper.pid, flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


async def test_a_rank_whose_first_thread_has_ended_is_ended_with_the_threads_and_children_it_has(
    node: Any,
) -> None:
    """Linux shows it as a zombie, and its children below it: while it is killed, so do all."""
    await node.launch(node.python(ENDED_FIRST), ranks=1)
    (rank,) = await node.running(1)
    await eventually_async(lambda: node.output() and not alive(rank), "its first thread ended")
    helper = int(node.output())
    await node.want(node.python(ENDED_FIRST))
    await quiet(node)
    assert not alive(helper)
    assert not Path(f"/proc/{rank}").exists()


async def test_a_rank_that_is_asked_to_stop_can_save_first(node: Any) -> None:
    task = node.python(POLITE, grace_s=20)
    await node.launch(task, ranks=1)
    await node.running(1)
    await eventually_async(lambda: "up" in node.output())
    epoch = node.epoch
    await node.want(task, stop="grace")
    await quiet(node)
    assert node.output(epoch=epoch).endswith("saved\n")


INTERRUPTED = """
import atexit, signal, time
atexit.register(print, "atexit", flush=True)
try:
    print("up", flush=True)
    time.sleep(1000)
except KeyboardInterrupt:
    print("saved", flush=True)
    raise
finally:
    print("finally", flush=True)
"""
IGNORES = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"


async def test_ctrl_c_is_an_interruption_as_from_a_terminal(node: Any) -> None:
    task = node.python(INTERRUPTED, grace_s=600)
    await node.launch(task, ranks=2)
    await node.running(2)
    await eventually_async(lambda: all("up" in node.output(rank) for rank in (0, 1)))
    epoch = node.epoch
    await node.want(task, stop="interrupt")
    await quiet(node)
    for rank in (0, 1):
        assert node.output(rank, epoch=epoch) == "up\nsaved\nfinally\natexit\n"
    assert node.driver.seen.killed == (), "each ended by itself"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param(POLITE, "up\nsaved\n", id="a handler of SIGTERM is called"),
        pytest.param(IGNORES + INTERRUPTED, "up\n", id="a rank that ignores SIGINT ends as ever"),
    ],
)
async def test_ctrl_c_is_sigterm_for_whom_sigint_is_nothing(
    node: Any, script: str, said: str
) -> None:
    task = node.python(script, grace_s=600)
    await node.launch(task, ranks=1)
    await node.running(1)
    await eventually_async(lambda: "up" in node.output())
    epoch = node.epoch
    await node.want(task, stop="interrupt")
    await quiet(node)
    assert node.output(epoch=epoch) == said


DROPPED = """
import time
class Held:
    def __del__(self):
        print("up", flush=True)
        time.sleep(1000)
try:
    Held()
    time.sleep(1000)
except KeyboardInterrupt:
    print("saved", flush=True)
"""


async def test_ctrl_c_that_python_drops_in_a_destructor_comes_again(node: Any) -> None:
    task = node.python(DROPPED, grace_s=600)
    await node.launch(task, ranks=1)
    await node.running(1)
    await eventually_async(lambda: "up" in node.output())
    epoch = node.epoch
    await node.want(task, stop="interrupt")
    await quiet(node)
    assert node.output(epoch=epoch) == "up\nsaved\n"


LOADED = """
import subprocess, sys
worker = subprocess.Popen([sys.executable, "-c", "print('up', flush=True); input()"],
    stdin=subprocess.PIPE)
try:
    worker.wait()
except KeyboardInterrupt:
    print("its worker", worker.poll(), flush=True)
"""


async def test_ctrl_c_leaves_the_workers_of_a_python_rank_to_it(node: Any) -> None:
    """A loader's worker that dies first is an error to the rank, and no interruption."""
    task = node.python(LOADED, grace_s=600)
    await node.launch(task, ranks=1)
    await node.running(1)
    await eventually_async(lambda: "up" in node.output())
    epoch = node.epoch
    await node.want(task, stop="interrupt")
    await quiet(node)
    assert node.output(epoch=epoch) == "up\nits worker None\n"


async def test_ctrl_c_reaches_what_a_shell_has_started_as_well(node: Any) -> None:
    """A shell waits for its program, and would wait for ever."""
    script = node.folder / "below.py"
    script.write_text(INTERRUPTED)
    task = node.task("sh", "-c", f"{sys.executable} {script}; echo over", grace_s=600)
    await node.launch(task, ranks=1)
    await node.running(1)
    await eventually_async(lambda: "up" in node.output())
    epoch = node.epoch
    await node.want(task, stop="interrupt")
    await quiet(node)
    assert node.output(epoch=epoch).startswith("up\nsaved\nfinally\n")


TORCH = """
import os, time, torch
print("store of its own:", os.environ["TORCHELASTIC_USE_AGENT_STORE"], flush=True)
time.sleep(1000)
"""


@pytest.mark.torch
async def test_the_grace_is_over_with_the_last_rank_though_the_store_would_serve_on(
    node: Any,
) -> None:
    task = node.python(TORCH, grace_s=600)
    await node.launch(task, ranks=2)
    ranks = await node.running(2)
    await eventually_async(lambda: all(node.output(rank) for rank in (0, 1)))
    assert node.output() == "store of its own: True\n"
    await node.want(task, stop="grace")
    await quiet(node)
    assert not any(alive(rank) for rank in ranks)


async def test_ranks_outlive_their_launcher_and_the_next_are_forked_from_another(
    own_node: Any,
) -> None:
    task = own_node.python(SLEEP)
    await own_node.launch(task, ranks=1)
    (rank,) = await own_node.running(1)
    launcher = await eventually_async(lambda: only(launchers(own_node, rank)))
    own_node.driver.seen = None
    os.kill(launcher, signal.SIGKILL)
    await eventually_async(lambda: not alive(launcher))
    await own_node.driver.eventually(lambda o: o.launcher == "warm")
    assert alive(rank)
    await own_node.launch(task, ranks=1)
    (after,) = await own_node.running(1)
    assert after != rank
    assert not alive(rank)


async def test_a_killed_executor_takes_its_ranks_along_and_the_next_says_so(
    own_node: Any,
) -> None:
    wanted = await own_node.launch(own_node.python(SLEEP), ranks=2)
    ranks = await own_node.running(2)
    os.kill(own_node.executor, signal.SIGKILL)
    assert own_node.host is not None
    await asyncio.to_thread(own_node.host.wait, DEADLINE_S)
    assert not any(alive(pid) for pid in ranks)
    await own_node.end()
    await own_node.start()
    assert own_node.driver.hellos[-1].epoch == wanted.epoch
    ended = await own_node.exited(2)
    assert [status.signal for status in ended] == [9, 9]
    assert own_node.driver.hellos[-1].incarnation != own_node.driver.hellos[0].incarnation


async def test_an_executor_that_ends_leaves_nothing(own_node: Any) -> None:
    await own_node.launch(own_node.python(DAEMONISES), ranks=2)
    await own_node.running(2)
    await eventually_async(lambda: len(own_node.below()) >= 5)
    before = own_node.below()
    os.kill(own_node.executor, signal.SIGTERM)
    assert own_node.host is not None
    await asyncio.to_thread(own_node.host.wait, DEADLINE_S)
    assert not any(alive(pid) for pid in before)


async def test_ranks_go_on_without_a_driver_and_their_end_is_told_to_the_next(node: Any) -> None:
    script = """
        import sys, time
        from pathlib import Path
        while not Path(sys.argv[1]).exists():
            time.sleep(0.01)
        sys.exit(5)
        """
    go = node.folder / "go"
    await node.launch(node.python(script, str(go)), ranks=1)
    (rank,) = await node.running(1)
    await node.driver.stop()
    assert alive(rank)
    go.touch()
    node.driver.seen, node.driver.desired = None, None
    await node.driver.start()
    (ended,) = await node.exited(1)
    assert ended.exit_code == 5


async def test_an_older_epoch_is_refused_in_a_sentence_and_changes_nothing(node: Any) -> None:
    await node.launch(node.python(SLEEP), ranks=1)
    (rank,) = await node.running(1)
    await node.driver.send(node.desired(None, epoch=node.epoch - 1))
    (refused,) = await eventually_async(lambda: node.driver.refusals)
    assert "older than" in refused.why
    assert alive(rank)


async def test_the_same_desired_state_twice_starts_nothing_twice(node: Any) -> None:
    wanted = await node.launch(node.python(SLEEP), ranks=2)
    ranks = await node.running(2)
    await node.driver.send(wanted)
    await node.driver.send(m.AskLog(id="after", job="job", attempt=1, rank=0, stream="stdout"))
    await eventually_async(lambda: "after" in node.driver.answers)
    assert [status.pid for status in node.driver.seen.ranks] == ranks
