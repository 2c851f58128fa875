"""Diagnostics are run in their time box, and whatever comes of one is a result."""

from typing import Any

import pytest

from holdfast.protocol import messages as m

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_each_order_ends_as_a_result_also_one_that_nobody_knows(node: Any) -> None:
    orders = tuple(
        m.DiagnosticOrder(id="d1", test=test, time_box_s=2) for test in ("nonsense", "other")
    )
    await node.want(node.python("print()"), diagnostics=orders)
    seen = await node.driver.eventually(lambda o: len(o.diagnostics) == 2)
    assert [result.test for result in seen.diagnostics] == ["nonsense", "other"]
    assert [result.ok for result in seen.diagnostics] == [None, None]
    assert all(result.detail for result in seen.diagnostics)


async def test_a_node_that_has_had_no_task_is_tested_as_well(own_node: Any) -> None:
    orders = (m.DiagnosticOrder(id="trial.7", test="nonsense", time_box_s=2),)
    await own_node.want(None, job=None, diagnostics=orders)
    seen = await own_node.driver.eventually(lambda o: o.diagnostics, within_s=60)
    assert (seen.job, seen.diagnostics[0].id) == (None, "trial.7")
