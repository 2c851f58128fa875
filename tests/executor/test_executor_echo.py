"""What ranks write is shown on the executor's stdout, for who reads a pod's log there."""

import fcntl
import os
import re
import termios
from array import array
from pathlib import Path
from typing import Any

import pytest
from waiting import DEADLINE_S, eventually, eventually_async

from holdfast.executor.adapters.echo import MOST_BEHIND_BYTES, Echo, Followed
from holdfast.executor.core.lines import LONGEST_BYTES, Lines
from holdfast.executor.settings import read
from holdfast.protocol import nodeenv
from holdfast.protocol.rankenv import NODE_ONLY

# ---------------------------------------------------------------- lines, pure


@pytest.mark.parametrize(
    ("fed", "shown"),
    [
        pytest.param([b"a\nb\n"], b"> a\n> b\n", id="two-lines"),
        pytest.param([b"a", b"b\n"], b"> ab\n", id="a-line-in-two-parts"),
        pytest.param([b"\n\n"], b"> \n> \n", id="empty-lines"),
        pytest.param([b"a\r\nb\r", b"\n"], b"> a\n> b\n", id="line-ends-of-windows"),
        pytest.param([b"\r 1%\r 2%", b"\r 3%"], b">  1%\n>  2%\n", id="a-bar-where-it-is"),
        pytest.param([b"\r 1%\r 2%\r 3%\n"], b">  3%\n", id="a-bar-that-is-done"),
        pytest.param([b"\xff\x00\x1b[1m\n"], b"> \xff\x00\x1b[1m\n", id="bytes-as-they-are"),
        pytest.param([b"begun"], b"", id="not-ended"),
    ],
)
def test_each_line_is_shown_whole_with_its_rank(fed: list[bytes], shown: bytes) -> None:
    lines = Lines(b"> ")
    assert b"".join(map(lines.feed, fed)) == shown


def test_what_was_begun_is_a_line_at_the_end() -> None:
    lines = Lines(b"> ")
    assert lines.feed(b"a\nbeg") + lines.feed(b"un") == b"> a\n"
    assert [lines.end(), lines.end()] == [b"> begun\n", b""]


@pytest.mark.parametrize("step", [1_000, 7_000, 100_000])
def test_a_long_line_is_cut_and_says_so_however_it_comes(step: int) -> None:
    lines, data = Lines(b"> "), b"x" * (LONGEST_BYTES + 50_000) + b"\nnext\n"
    shown = b"".join(lines.feed(data[at : at + step]) for at in range(0, len(data), step))
    assert shown == b"> %s [50000 bytes cut]\n> next\n" % (b"x" * LONGEST_BYTES)


# ---------------------------------------------------------------- files, really followed


def test_lines_of_all_ranks_come_with_their_number(tmp_path: Path) -> None:
    files = [file_of(tmp_path, rank) for rank in (0, 11)]
    add(files[0], b"of before\n")
    hears, says = os.pipe()
    showing = Echo(says)
    showing.follow(0, files[0])
    showing.follow(11, files[1])
    add(files[0], b"loss 3.1\n\xff\n")
    add(files[1], b"hello\nno end")
    ended(showing, says)
    assert sorted(drained(hears).splitlines()) == [
        b"[rank 0] loss 3.1",
        b"[rank 0] \xff",
        b"[rank 11] hello",
        b"[rank 11] no end",
    ]


def test_nobody_who_reads_hinders_a_rank_and_what_was_left_out_is_said(tmp_path: Path) -> None:
    file, lines = file_of(tmp_path, 3), 400_000
    hears, says = os.pipe()
    showing = Echo(says)
    showing.follow(3, file)
    add(file, b"".join(b"%d\n" % line for line in range(lines // 2)))
    eventually(lambda: held_bytes(hears), "the pipe is being filled")
    add(file, b"".join(b"%d\n" % line for line in range(lines // 2, lines)))
    showing.drop()
    shown = b""
    while not shown.endswith(b"[rank 3] %d\n" % (lines - 1)):
        shown += os.read(hears, 1 << 20)
    ended(showing, says)
    os.close(hears)
    told = [line.removeprefix(b"[rank 3] ") for line in shown.splitlines()]
    numbers = [int(line) for line in told if line.isdigit()]
    left_out = sum(int(line[1:].split()[0]) for line in told if line.endswith(b"them all]"))
    assert numbers == sorted(set(numbers))
    assert left_out > 0
    assert len(numbers) + left_out == lines, "each line was shown, or counted"


def test_a_line_is_left_out_whole_though_it_had_been_begun(tmp_path: Path) -> None:
    file = file_of(tmp_path, 3)
    followed = Followed(3, file)
    add(file, b"10\n1")
    assert followed.more() == b"[rank 3] 10\n"
    add(file, b"1\n" + b"12\n" * MOST_BEHIND_BYTES)
    assert re.match(rb"\[rank 3\] \[\d+ lines left out: .*\n\[rank 3\] 12\n", followed.more())


def test_an_end_that_nobody_reads_is_no_wait(tmp_path: Path) -> None:
    file = file_of(tmp_path, 0)
    hears, says = os.pipe()
    showing = Echo(says)
    showing.follow(0, file)
    add(file, b"x\n" * 200_000)
    showing.close(0)  # returns, though its thread still waits for a reader
    assert showing.running
    os.close(hears)
    ended(showing, says)


def test_a_reader_who_is_gone_ends_nothing(tmp_path: Path) -> None:
    file = file_of(tmp_path, 0)
    hears, says = os.pipe()
    os.close(hears)
    showing = Echo(says)
    showing.follow(0, file)
    add(file, b"one\n")
    ended(showing, says)


def test_a_run_that_is_over_is_shown_once_though_its_file_grows(tmp_path: Path) -> None:
    file = file_of(tmp_path, 0)
    hears, says = os.pipe()
    showing = Echo(says)
    showing.follow(0, file)
    add(file, b"first\n")
    showing.drop()
    showing.follow(0, file)
    add(file, b"second\n")
    ended(showing, says)
    assert sorted(drained(hears).splitlines()) == [b"[rank 0] first", b"[rank 0] second"]


def file_of(folder: Path, rank: int) -> Path:
    path = folder / f"{rank}.log"
    path.touch()
    return path


def add(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def ended(showing: Echo, says: int) -> None:
    showing.close(DEADLINE_S)
    assert not showing.running
    os.close(says)


def drained(pipe: int) -> bytes:
    with os.fdopen(pipe, "rb") as file:
        return file.read()


def held_bytes(pipe: int) -> int:
    held = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, held)
    return held[0]


# ---------------------------------------------------------------- the executor


def test_it_is_asked_for_by_the_host_and_no_business_of_ranks(tmp_path: Path) -> None:
    assert nodeenv.SHOW_OUTPUT in NODE_ONLY
    (tmp_path / "token").write_text("t")
    told = {
        nodeenv.NODE: "n",
        nodeenv.DRIVER_URL: "unix:/d",
        nodeenv.TOKEN_FILE: str(tmp_path / "token"),
        nodeenv.SCRATCH: str(tmp_path),
        nodeenv.MEMORY: str(tmp_path),
    }
    assert not read(told).show_output
    assert read({**told, nodeenv.SHOW_OUTPUT: "yes"}).show_output


SCRIPT = """
import os, sys
print("out", os.environ["RANK"])
print("err", os.environ["RANK"], file=sys.stderr)
"""
WRITTEN = {f"[rank {rank}] {what} {rank}".encode() for rank in (0, 1) for what in ("out", "err")}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("asked", ["yes", ""])
async def test_an_executor_of_a_pod_shows_its_ranks_and_no_other_prints_them_twice(
    own_node: Any, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    await own_node.end()
    monkeypatch.setenv(nodeenv.SHOW_OUTPUT, asked)
    await own_node.start()
    os.set_blocking(own_node.host.stdout.fileno(), False)
    said = b""

    def shown() -> bool:
        nonlocal said
        said += own_node.host.stdout.read() or b""
        return set(said.splitlines()) >= WRITTEN

    await own_node.launch(own_node.python(SCRIPT, ranks_per_node=2), ranks=2)
    await own_node.exited(2)
    if asked:
        await eventually_async(shown, "the lines of both ranks")
    await own_node.want(None, job=None)
    await own_node.driver.eventually(lambda o: o.job is None and o.quiet)
    shown()
    assert said.count(b"\n") == (len(WRITTEN) if asked else 0)
