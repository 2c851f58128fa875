"""What a probe measured, and the one answer to an order that is made of it. Pure.

Called by whatever answers for a node: the runner, who waits for it in vain, and made-up nodes.
"""

import msgspec

from holdfast.diagnostics.registry import TESTS
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe found. `ok` is None where it could not be run."""

    ok: bool | None
    wrong: bool = False  # not ok, and not for being slow: the result is another than it has to be
    value: float | None = None  # in the unit of its test
    detail: str = ""


def answered(order: DiagnosticOrder, node: str, found: Measured) -> DiagnosticResult:
    """What the node tells of the order."""
    known = TESTS.get(order.test)
    return DiagnosticResult(
        id=order.id,
        test=order.test,
        node=node,
        round=order.round,
        members=order.members,
        ok=found.ok,
        wrong=found.wrong,
        value=found.value,
        unit=known.unit if known and found.value is not None else "",
        detail=found.detail,
    )


def untested(order: DiagnosticOrder, node: str, why: str) -> DiagnosticResult:
    """It could not be run."""
    return answered(order, node, Measured(ok=None, detail=why))
