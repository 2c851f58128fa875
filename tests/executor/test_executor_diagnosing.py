"""How long a test of this node is waited for, in virtual time: loading torch is not the test."""

import asyncio
import os
import signal

import msgspec
import pytest

from holdfast.diagnostics.runner import BEGUN, LOADING_S
from holdfast.executor import diagnosing
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult

pytestmark = pytest.mark.looptime

ORDER = DiagnosticOrder(id="d1", test="compute", time_box_s=5)
PASSED = DiagnosticResult(id="d1", test="compute", node="node-1", ok=True)


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The process groups that were ended."""
    ended: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda pid, number: ended.append(pid * int(number)))
    return ended


async def _answer(*said: tuple[float, bytes]) -> DiagnosticResult:
    """Of a runner that says so at these times, and then ends."""
    output = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    for at_s, line in said:
        loop.call_later(at_s, output.feed_data, line)
    if said[-1][1] != BEGUN:
        loop.call_later(said[-1][0] + 0.01, output.feed_eof)
    return await diagnosing._result(output, 7, "node-1", ORDER)


async def test_what_loading_took_is_not_taken_from_the_time_of_the_test(killed: list[int]) -> None:
    slow = LOADING_S - 1
    found = await _answer((slow, BEGUN), (slow + 4.9, msgspec.json.encode(PASSED)))
    assert (found, killed) == (PASSED, [])


async def test_a_runner_that_has_begun_and_says_no_more_is_ended(killed: list[int]) -> None:
    found = await _answer((1.0, BEGUN))
    assert (found.ok, found.detail) == (None, "the runner was ended after 15 s")
    assert killed == [7 * signal.SIGKILL]


async def test_a_runner_that_never_begins_is_ended_and_that_is_said_apart(
    killed: list[int],
) -> None:
    found = await _answer((LOADING_S * 2, BEGUN))
    assert found.detail == "the test did not begin: its runner was ended after 70 s"
    assert killed == [7 * signal.SIGKILL]
