"""Ranks read an empty stdin, and whoever feeds one is told."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from shells import Shell

from holdfast.cli.run import stdin


@pytest.fixture
def own() -> Iterator[None]:
    """This process's stdin, put back afterwards."""
    kept = os.dup(0)
    yield
    os.dup2(kept, 0)
    os.close(kept)


@pytest.mark.usefixtures("own")
def test_a_file_and_a_full_pipe_feed_us_and_nothing_else_does(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.touch()
    for path, fed in ((file, True), (Path(os.devnull), False)):
        descriptor = os.open(path, os.O_RDONLY)
        os.dup2(descriptor, 0)
        os.close(descriptor)
        assert stdin.is_fed() is fed, path
    reader, writer = os.pipe()
    os.dup2(reader, 0)
    os.close(reader)
    assert not stdin.is_fed()
    os.write(writer, b"data")
    assert stdin.is_fed()
    assert os.read(0, 4) == b"data", "it is not taken away"
    os.close(writer)


@pytest.mark.cluster
@pytest.mark.usefixtures("own")
def test_each_rank_reads_an_empty_stdin(shell: Shell) -> None:
    shell.script("ask.py", "import sys\nprint(repr(sys.stdin.read()))\n")
    with shell.script("data", "hello\n").open() as data:
        os.dup2(data.fileno(), 0)
    ended = shell.holdfast("run", "-n", "2", "ask.py")
    assert (ended.returncode, ended.stdout) == (0, "''\n"), ended.stderr
    assert f"holdfast  {stdin.SAID}" in ended.stderr.splitlines()
