"""Each rank lets py-spy read it, however it came to life.

That the kernel is told is seen by strace. What Yama makes of it is not shown here: that the stacks
of a rank can then be had where ptrace_scope is 1 needs a kernel that has Yama.
"""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from waiting import DEADLINE_S

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here"),
]

SAID = re.compile(r"prctl\((?:PR_SET_PTRACER|0x59616d61), (?:PR_SET_PTRACER_ANY|0xf{16})")


@asynccontextmanager
async def watched(pid: int, calls: Path) -> AsyncIterator[None]:
    """Have strace write down what this process, and those that it starts from now on, call."""
    words = ["-f", "-e", "trace=prctl,execve", "-o", str(calls), "-p", str(pid)]
    strace = await asyncio.create_subprocess_exec("strace", *words, stderr=asyncio.subprocess.PIPE)
    assert strace.stderr is not None
    try:
        async with asyncio.timeout(DEADLINE_S):
            said = await strace.stderr.readline()
        if b"attached" not in said:
            pytest.skip(f"strace may not look: {said.decode().strip()}")
        yield
    finally:
        if strace.returncode is None:
            strace.terminate()
        await strace.communicate()


@pytest.mark.parametrize("how", ["forked", "executed"])
async def test_a_rank_lets_itself_be_read(node: Any, tmp_path: Path, how: str) -> None:
    executed = node.task("/bin/sh", "-c", "echo $$")
    forked = node.python("import os; print(os.getpid())")
    async with watched(node.executor, calls := tmp_path / "calls"):
        await node.launch(forked if how == "forked" else executed, ranks=1)
        await node.exited(1)
    rank = node.output().strip()
    made = [line for line in calls.read_text().splitlines() if line.split()[0] == rank]
    assert [line for line in made if SAID.search(line)], made
    assert len([line for line in made if "execve(" in line]) == (how == "executed")
