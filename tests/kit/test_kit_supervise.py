"""Children are started again, given up when hopeless, and end with their lifeline."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from waiting import DEADLINE_S

from holdfast.kit.supervise import Child, DoesNotStayUp, Lifeline, end_all

UNTIL_CUT = (
    "import os, sys\n"
    "print('up', flush=True)\n"
    "os.read(int(sys.argv[sys.argv.index('--die-with-fd') + 1]), 1)\n"
)


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Child]]:
    """Start a child that runs a module with the given text."""
    lifeline, children = Lifeline(), []

    def started(text: str) -> Child:
        (tmp_path / "program.py").write_text(text)
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        log = tmp_path / "log"
        child = Child("child", "program", [], log=log, lifeline=lifeline, environment=environment)
        children.append(child)
        child.look_after(time.monotonic())
        return child

    yield started
    end_all(children, lifeline)
    assert all(child.pid == 0 for child in children)


def look_after_until(child: Child, fact: Callable[[], bool], within_s: float = DEADLINE_S) -> None:
    deadline_s = time.monotonic() + within_s
    while not fact():
        assert time.monotonic() < deadline_s
        child.look_after(time.monotonic())


def test_a_child_that_is_killed_again_and_again_is_started_again(
    start: Callable[[str], Child],
) -> None:
    child = start(UNTIL_CUT)
    for life in range(1, 8):
        look_after_until(child, lambda: child.pid != 0)
        assert child.starts == life
        os.kill(child.pid, signal.SIGKILL)
        look_after_until(child, lambda: child.pid == 0)


def test_a_child_that_says_it_cannot_run_is_given_up_with_its_last_words(
    start: Callable[[str], Child],
) -> None:
    child = start("import sys; print('no such driver', flush=True); sys.exit(78)")
    with pytest.raises(DoesNotStayUp, match="no such driver") as failure:
        look_after_until(child, lambda: False)
    assert (failure.value.code, child.starts) == (78, 1)


def test_a_child_that_dies_at_once_is_not_started_for_ever(start: Callable[[str], Child]) -> None:
    child = start("raise SystemExit(1)")
    with pytest.raises(DoesNotStayUp):
        look_after_until(child, lambda: child.starts > 20)
    assert child.starts == 6


def test_a_child_that_is_gone_has_no_pid_while_another_thread_finds_out(
    start: Callable[[str], Child],
) -> None:
    child = start(UNTIL_CUT)
    process = child._process
    assert process is not None
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    entered, go_on, poll = threading.Event(), threading.Event(), process.poll

    def looking() -> int | None:
        """As `poll` while it asks the kernel: nobody else may, and it tells them None."""
        process.poll = poll  # type: ignore[method-assign]
        with process._waitpid_lock:  # type: ignore[attr-defined]
            entered.set()
            go_on.wait(DEADLINE_S)
        return poll()

    process.poll = looking  # type: ignore[method-assign]
    with ThreadPoolExecutor() as threads:
        looks = threads.submit(child.look_after, time.monotonic())
        entered.wait(DEADLINE_S)
        asked = threads.submit(lambda: child.pid)
        wait([asked], timeout=0.05)  # long enough for an answer that does not wait its turn
        go_on.set()
        assert asked.result(DEADLINE_S) == 0
        looks.result(DEADLINE_S)
