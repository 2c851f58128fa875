"""Where a run's output goes: lines of ours stand alone, and who cannot write says so once."""

import errno
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from shells import Shell
from waiting import DEADLINE_S, eventually

from holdfast.cli.errors import Stopped
from holdfast.cli.run.screen import STDERR, STDOUT, Screen

pytestmark = pytest.mark.warm

Act = Callable[[Screen], None]


@contextmanager
def instead_of_ours(*, one: bool) -> Iterator[tuple[int, int]]:
    """This process's stdout and stderr are pipes for a while, or `one`; what reads them."""
    kept = [os.dup(stream) for stream in (STDOUT, STDERR)]
    out, to_out = os.pipe()
    err, to_err = os.pipe()
    try:
        os.dup2(to_out, STDOUT)
        os.dup2(to_out if one else to_err, STDERR)
        os.close(to_out)
        os.close(to_err)
        yield out, err
    finally:
        for stream, own in zip((STDOUT, STDERR), kept, strict=True):
            os.dup2(own, stream)
            os.close(own)
        for reader in (out, err):
            os.close(reader)


def written(act: Act, *, one: bool) -> tuple[bytes, bytes]:
    with instead_of_ours(one=one) as (out, err):
        act(Screen(pytest.fail))
        os.write(STDOUT, b".")
        os.write(STDERR, b".")
        said = os.read(out, 65_536), b"" if one else os.read(err, 65_536)
    return said[0].rstrip(b"."), said[1].rstrip(b".")


def prompts(screen: Screen) -> None:
    screen.stdout(b"Name: ")
    screen.stderr(b"Traceback\n")
    screen.stdout(b"Name: ")
    screen.say("holdfast  failed")


def counts(screen: Screen) -> None:
    screen.stderr(b"50 %")
    screen.stderr(b"\r60 %")
    screen.say("holdfast  rank 1 died")
    screen.stderr(b"70 %\n")
    screen.say("holdfast  done")


@pytest.mark.parametrize(
    ("act", "one", "said"),
    [
        (prompts, True, (b"Name: \nTraceback\nName: \nholdfast  failed\n", b"")),
        (prompts, False, (b"Name: Name: ", b"Traceback\nholdfast  failed\n")),
        (counts, False, (b"", b"50 %\r60 %\nholdfast  rank 1 died\n70 %\nholdfast  done\n")),
    ],
)
def test_half_a_line_is_ended_before_who_shares_its_file_says_something(
    act: Act, one: bool, said: tuple[bytes, bytes]
) -> None:
    assert written(act, one=one) == said


def test_who_cannot_write_is_told_once_and_goes_on() -> None:
    told: list[str] = []
    with instead_of_ours(one=False):
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, STDOUT)
        os.close(full)
        screen = Screen(told.append)
        screen.check()
        for _ in range(3):
            screen.stdout(b"lost\n")
    assert told == [f"its output cannot be written to /dev/full ({os.strerror(errno.ENOSPC)})"]
    with pytest.raises(Stopped, match="cannot write to /dev/full: No space left on device"):
        screen.check()


def test_a_terminal_that_does_not_wait_gets_all_of_it() -> None:
    more = b"x" * 200_000
    with instead_of_ours(one=False) as (out, _):
        os.set_blocking(STDOUT, False)
        command = ["/bin/sh", "-c", "wc -c"]
        reader = subprocess.Popen(command, stdin=out, stdout=subprocess.PIPE)
        Screen(pytest.fail).stdout(more)
        os.dup2(STDERR, STDOUT)  # the last writer goes
        counted, _ = reader.communicate(timeout=DEADLINE_S)
    assert int(counted) == len(more)


@pytest.mark.cluster
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_run_of_which_nobody_reads_any_more_ends_as_at_ctrl_c(shell: Shell, stream: str) -> None:
    to = ">&2" if stream == "stderr" else ""
    saves = f"trap 'touch saved; exit' TERM; while sleep .05; do echo line {to}; done"
    process = shell.start("run", "--", "sh", "-c", saves)
    read = getattr(process, stream)
    assert any("line" in line for line in iter(read.readline, ""))
    read.close()
    assert process.wait(DEADLINE_S) == 128 + signal.SIGPIPE
    assert (shell.folder / "saved").exists(), "ranks have their grace"
    if stream == "stdout":
        assert process.stderr is not None
        assert "holdfast  stopping: nobody reads its output any more; " in process.stderr.read()
    assert "Stopped" in shell.asked("runs").stdout
    eventually(lambda: not shell.leftovers())
