"""A standstill that names nobody is held to be on the node of those before it, or on none."""

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.driver.core.evidence import book
from holdfast.driver.core.recovery.case_of import placed
from holdfast.driver.core.state.fact import About, Bearing, Fact, FaultClass, OfNode, OfVersion
from holdfast.driver.core.state.model import Fault
from holdfast.protocol.faults import Kind, Weight

NOW = 30 * book.DAY_S


def place(*, stood: bool = True, places: tuple[str, ...] = ("n0", "n1", "n2", "n3")) -> str | None:
    """Where it is held to be after four on n1 of four nodes."""
    fact = Fact(
        subject=OfVersion(job="job", number=1),
        what="hang",
        bearing=Bearing.CONTEXT,
        at_s=NOW - 60.0,
        about=About(job="job", version=1, node=OfNode(name="n1")),
        fault=FaultClass.DIED,
        stood=stood,
    )
    job: Any = SimpleNamespace(
        facts=(fact,) * 4,
        running=SimpleNamespace(number=1),
        layout=SimpleNamespace(nodes=4),
        places=places,
    )
    turn: Any = SimpleNamespace(now=NOW, nodes={})
    fault = Fault(kind=Kind.NO_PROGRESS, weight=Weight.RESTART, summary="")
    return placed(turn, job, fault).place


@pytest.mark.parametrize(
    ("held", "found"),
    [
        pytest.param({}, "n1", id="four that stood there"),
        pytest.param({"stood": False}, None, id="four that ended there, and did not stand"),
        pytest.param({"places": ("n0", "n2", "n3", "n4")}, None, id="a node that was left"),
    ],
)
def test_it_is_held_to_be_on(held: dict[str, Any], found: str | None) -> None:
    assert place(**held) == found
