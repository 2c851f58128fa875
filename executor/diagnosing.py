"""Runs one diagnostic within its time box; whatever comes of it is a result.

Called by `executor.loop` for a RunDiagnostic.
"""

import asyncio
import os
import signal
from contextlib import suppress

import msgspec

from holdfast.diagnostics.measured import untested
from holdfast.diagnostics.runner import BEGUN, LOADING_S, result_of
from holdfast.executor.adapters.pipes import readable
from holdfast.executor.command import NotStartable
from holdfast.executor.launcher.orders import Program
from holdfast.executor.spawner import Spawner
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult
from holdfast.protocol.rankenv import NodeFacts

MARGIN_S = 10.0
"""Beyond a limit that the runner keeps itself: for a start without a launcher, and for its end."""


async def diagnose(spawner: Spawner, node: NodeFacts, order: DiagnosticOrder) -> DiagnosticResult:
    """What the runner measured; `ok` is None, with the reason, where it said nothing."""
    ours, theirs = os.pipe()
    scratch = str(node.paths.scratch)
    env = {"HOLDFAST_NODE": node.name, "HOLDFAST_IFNAME": node.ifname, "HOLDFAST_SCRATCH": scratch}
    program = Program(
        module="holdfast.diagnostics.runner",
        arguments=(msgspec.json.encode(order).decode(),),
        title="diagnostic",
        env=env,
    )
    async with readable(ours) as output:
        try:
            pid = await spawner.start(
                program, os.environ, stdout=theirs, stderr=2, on_exit=lambda *_: None
            )
        except NotStartable as error:
            return untested(order, node.name, f"the runner could not be started: {error}")
        finally:
            os.close(theirs)
        return await _result(output, pid, node.name, order)


async def _result(
    output: asyncio.StreamReader, pid: int, node: str, order: DiagnosticOrder
) -> DiagnosticResult:
    """The runner keeps both of its limits itself; this is for one that does not."""
    limit_s, what = LOADING_S + MARGIN_S, "the test did not begin: its runner"
    try:
        async with asyncio.timeout(limit_s) as limit:
            first = await output.readline()
            if first == BEGUN:
                limit_s, what = order.time_box_s + MARGIN_S, "the runner"
                limit.reschedule(asyncio.get_running_loop().time() + limit_s)
            text = first + await output.read()
        return result_of(text)
    except TimeoutError:
        detail = f"{what} was ended after {limit_s:.0f} s"
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    except msgspec.DecodeError as error:
        detail = f"the runner ended without a result: {error}"
    return untested(order, node, detail)
