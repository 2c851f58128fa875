"""Stacks of a running Python process, by py-spy: without stopping it, also when it is stopped."""

import asyncio
import os
import re
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

from holdfast.executor.adapters.children import Children
from holdfast.executor.adapters.pipes import readable
from holdfast.kit import procstat

LIMIT_S = 2.0
"""Measured: 10 to 36 ms for one process; a loaded host is slower."""
CHILD_LIMIT_S = 0.6
"""The driver waits a second for all of it, and the rank's own stack is wanted most."""
MOST_CHILDREN = 8
NO_STACK = "no stack: "
_PROCESS = "multiprocessing/process.py:"
_BEGAN = re.compile(r"^ +_execute_script \(.*executor/launcher/child\.py:\d+\)\n( .*(\n|$))*", re.M)
"""What runs the script: the same in each rank, and nobody's question."""


async def stacks(children: Children, pid: int, *, max_chars: int) -> str:
    """The stacks of `pid`, then those of its child processes: what it waits for may stand there.

    Each is asked for alone: py-spy gives up all where one child is no Python.
    """
    below = procstat.descendants(pid)[:MOST_CHILDREN]
    asked = [stack(children, pid, max_chars=max_chars)]
    asked += [stack(children, child, max_chars=max_chars, limit_s=CHILD_LIMIT_S) for child in below]
    own, *others = await asyncio.gather(*asked)
    own = without_launcher(own)
    told = (_own_part(text) for text in others if not text.startswith(NO_STACK))
    return "\n\n".join([own, *told])[:max_chars]


def without_launcher(text: str) -> str:
    """Each thread's frames down to where the script begins."""
    return _BEGAN.sub("", text).rstrip()


def _own_part(text: str) -> str:
    """Of a forked worker: what is above is the rank's as it was at the fork."""
    lines = text.splitlines()
    forked = (at for at, line in enumerate(lines) if "_bootstrap (" in line and _PROCESS in line)
    return "\n".join(lines[: next(forked, len(lines))])


async def stack(children: Children, pid: int, *, max_chars: int, limit_s: float = LIMIT_S) -> str:
    """The stacks of all threads of `pid` as text, or "no stack: …" with the reason."""
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        return f"{NO_STACK}py-spy is not installed on this node"
    ours, theirs = os.pipe()
    try:
        sampler = children.spawn(
            [found, "dump", "--nonblocking", "--full-filenames", "--pid", str(pid)],
            lambda *_: None,
            env=os.environ,
            stdout=theirs,
            stderr=theirs,
        )
    except OSError as error:
        os.close(ours)
        return f"{NO_STACK}py-spy could not be started: {error}"
    finally:
        os.close(theirs)
    async with readable(ours) as output:
        try:
            async with asyncio.timeout(limit_s):
                text = (await output.read(-1)).decode("utf-8", "replace").strip()
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.kill(sampler, signal.SIGKILL)
            return f"{NO_STACK}py-spy did not answer within {limit_s:g} s"
    if "Thread" not in text:
        return f"{NO_STACK}{text.rpartition(chr(10))[2] or 'py-spy said nothing'}"
    return text[:max_chars]
