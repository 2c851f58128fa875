"""Where in its script a fault was: ranks that made no step yet are where they started."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.driver.core.faults.fault import class_of, site_of
from holdfast.driver.core.state.fact import FaultClass, Site
from holdfast.driver.core.state.model import Fault, Job, Signature
from holdfast.protocol.faults import Kind, Weight


def site(start: int | None, end: Signature) -> Site | None:
    job: Any = SimpleNamespace(restore=None if start is None else SimpleNamespace(step=start))
    fault = Fault(kind=Kind.ENDED_EARLY, weight=Weight.RESTART, summary="", signature=end)
    return site_of(cast(Job, job), fault)


@pytest.mark.parametrize(("seen", "relative"), [(29, False), (0, False), (0, True)])
def test_who_ends_at_the_step_from_which_it_started_ends_where_it_ended_before(
    seen: int, relative: bool
) -> None:
    """Before its first step a script has not told yet how it counts them."""
    first = site(None, Signature(how="exit code 0", step=29))
    again = site(29, Signature(how="exit code 0", step=seen, relative=relative))
    assert first == Site(words="exit code 0", step=29)
    assert again == Site(words="exit code 0", step=29, fresh=True)
    assert again is not None
    assert again.same(first)


def test_steps_that_are_counted_from_each_start_are_not_those_of_the_job() -> None:
    assert site(None, Signature(how="SIGSEGV", step=0, relative=True)) == Site(
        words="SIGSEGV", step=0, fresh=True, relative=True
    )
    assert site(29, Signature(how="SIGSEGV", step=4, relative=True)) == Site(
        words="SIGSEGV", step=4, relative=True
    )


@pytest.mark.parametrize(
    ("sign", "told"), [("gpu-ecc", FaultClass.DIED), ("import", FaultClass.SAID)]
)
def test_an_exception_over_what_lies_outside_the_script_is_not_its_word(
    sign: str, told: FaultClass
) -> None:
    fault = Fault(kind=Kind.USER_EXCEPTION, weight=Weight.RESTART, summary="", signs=(sign,))
    assert class_of(fault) is told
