"""Route about what healthy nodes reach in each test, and have to reach."""

from fastapi import APIRouter, Depends
from pydantic import Field

from holdfast.diagnostics.figures import Figure
from holdfast.diagnostics.registry import TESTS
from holdfast.driver.adapters.rest.guard import NO_PARAMETERS, PREFIX, Driver, person
from holdfast.driver.adapters.rest.view import View

router = APIRouter(
    prefix=f"{PREFIX}/calibrations", tags=["nodes"], dependencies=[Depends(person), NO_PARAMETERS]
)


class CalibrationView(View):
    """What healthy nodes reached in one test."""

    test: str
    unit: str
    nodes: int = Field(ge=1)
    """So many of them."""
    median: float
    spread: float
    """Of the logarithm of what they reached: .05 is about 5 %."""
    bound: float
    """A node that reaches less fails."""
    ago_s: float = Field(ge=0)
    """How long ago."""
    asked: bool
    """Whether a person had it measured; else a diagnosis of healthy nodes told it, and the bound
    counts where fewer than five nodes are tested."""
    drift: float | None
    """By what share the median differs from that of the calibration before; null: there is none."""


class CalibrationsView(View):
    """All that is known of healthy nodes."""

    tests: list[CalibrationView]


@router.get("")
async def get_calibrations(control: Driver) -> CalibrationsView:
    """What nodes have to reach where a person has them tested, by test."""
    known = sorted(control.state.figures.items())
    return CalibrationsView(
        tests=[_view(test, each, control.now()) for test, each in known if test in TESTS]
    )


def _view(test: str, figure: Figure, now: float) -> CalibrationView:
    return CalibrationView(
        test=test,
        unit=TESTS[test].unit,
        nodes=figure.nodes,
        median=figure.median,
        spread=figure.spread,
        bound=figure.bound,
        ago_s=max(0.0, now - figure.at_s),
        asked=figure.asked,
        drift=figure.drift,
    )
