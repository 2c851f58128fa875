"""Stacks of a running Python process, by py-spy: without stopping it, also when it is stopped."""

import asyncio
import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

from holdfast.executor.adapters.children import Children
from holdfast.executor.adapters.pipes import readable

LIMIT_S = 2.0
"""Measured: 10 to 36 ms for one process; a loaded host is slower."""


async def stack(children: Children, pid: int, *, max_chars: int) -> str:
    """The stacks of all threads of `pid` as text, or "no stack: …" with the reason."""
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        return "no stack: py-spy is not installed on this node"
    ours, theirs = os.pipe()
    try:
        sampler = children.spawn(
            [found, "dump", "--nonblocking", "--pid", str(pid)],
            lambda *_: None,
            env=os.environ,
            stdout=theirs,
            stderr=theirs,
        )
    except OSError as error:
        os.close(ours)
        return f"no stack: py-spy could not be started: {error}"
    finally:
        os.close(theirs)
    async with readable(ours) as output:
        try:
            async with asyncio.timeout(LIMIT_S):
                text = (await output.read(-1)).decode("utf-8", "replace").strip()
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.kill(sampler, signal.SIGKILL)
            return f"no stack: py-spy did not answer within {LIMIT_S:.0f} s"
    if "Thread" not in text:
        return f"no stack: {text.rpartition(chr(10))[2] or 'py-spy said nothing'}"
    return text[:max_chars]
